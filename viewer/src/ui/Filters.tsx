// The search, and what is looked at: range of time, threads, labels. Each says what it leaves.
import { isEverything, labelValues, type Filter } from '../data/aggregate'
import { percent, plural, share } from '../format'
import * as state from '../state'
import { Choice } from './Choice'

export function Filters() {
  const profile = state.profile.value
  const { filter, search, sums, everything, found, foundNs } = state
  const { range, labels, cpu, reason } = filter.value
  const second = 1e9 / profile.unit
  const filtered = !isEverything(filter.value)
  const { merged, folded, hidden } = state.shape.value
  const name = (fn: number) => profile.fns[fn]!.qualname
  const setRange = (from: number, to: number) => {
    if (!Number.isFinite(from) || !Number.isFinite(to)) return
    const whole = from <= 0 && to >= profile.duration + 1
    filter.value = { ...filter.value, range: whole || to <= from ? null : [from, to] }
  }
  const edge = (name: string, value: number, set: (units: number) => void) => (
    <label class="choice">
      <span>{name}</span>
      <input type="number" min="0" step="any" value={(value / second).toFixed(3)} onChange={(event) => set(Number(event.currentTarget.value) * second)} />
    </label>
  )
  const [from, to] = range ?? [0, profile.duration + 1]
  return (
    <div class="bar filters" role="search">
      <label class="choice">
        <span>Search</span>
        <input id="search" type="search" value={search.value} placeholder="function or file  ( / )" onInput={(event) => (search.value = event.currentTarget.value)} />
      </label>
      {found.value && (
        <output data-testid="found">
          <strong>{percent(share(foundNs.value, sums.value.totalNs))}</strong> in {plural(found.value.reduce((a, b) => a + b, 0), state.byLine.value ? 'line' : 'function')}
        </output>
      )}
      <span class="separator" />
      {profile.timed && (
        <>
          {edge('From', from, (units) => setRange(units, to))}
          {edge('to', to, (units) => setRange(from, units))}
          <span class="dim">s</span>
        </>
      )}
      {state.canSplit.value && (
        <Choice label="Time" value={cpu ?? 'both'} options={[['both', 'on and off CPU'], ['on', 'on CPU'], ['off', 'off CPU (waiting)']]}
          onChange={(value) => (filter.value = { ...filter.value, cpu: value === 'both' ? null : (value as Filter['cpu']) })} />
      )}
      {state.hasReasons.value && (
        <Choice label="Waiting for" value={reason ?? ''}
          options={[['', 'anything, or running'], ...state.reasons.value.map((one) => [one, one] as const)]}
          onChange={(value) => (filter.value = { ...filter.value, reason: value || null })} />
      )}
      {[...labelValues(profile)].map(([key, values]) => (
        <Choice key={key} label={key} value={labels[key] ?? ''}
          options={[['', 'any'] as const, ...values.map((value) => [value, value.length > 40 ? `${value.slice(0, 39)}…` : value] as const)]}
          onChange={(value) => {
            const { [key]: _, ...rest } = labels
            filter.value = { ...filter.value, labels: value ? { ...rest, [key]: value } : rest }
          }} />
      ))}
      {[...hidden].map((one) => <Shaped key={`h ${one}`} what="hidden" name={one} undo={() => state.toggleShape('hidden', one)} />)}
      {[...merged].map((fn) => <Shaped key={`m ${fn}`} what="merged" name={name(fn)} undo={() => state.toggleShape('merged', fn)} />)}
      {[...folded].map((fn) => <Shaped key={`f ${fn}`} what="folded" name={name(fn)} undo={() => state.toggleShape('folded', fn)} />)}
      {state.isShaped.value && !filtered && <button type="button" onClick={state.clearFilters}>Show all</button>}
      {filtered && (
        <>
          <output data-testid="looking">
            looking at {state.figure(sums.value.totalNs)} of {state.amount(everything.value.totalNs)}, {plural(sums.value.totalSamples, 'sample')}
          </output>
          <button type="button" onClick={state.clearFilters}>Show all</button>
        </>
      )}
    </div>
  )
}

// What of the stacks is not shown as it is.
function Shaped({ what, name, undo }: { what: string; name: string; undo: () => void }) {
  return (
    <button type="button" class="shaped" title={`${what}: ${name}. Click to show it again`} onClick={undo}>
      {what} {name.length > 24 ? `${name.slice(0, 23)}…` : name} <span aria-hidden="true">×</span>
    </button>
  )
}
