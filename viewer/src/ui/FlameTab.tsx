import { useMemo } from 'preact/hooks'
import { baseName } from '../data/labels'
import { layout } from '../data/tree'
import { mainReasons, waitsIn } from '../data/waits'
import { faded } from '../draw/colour'
import { heavyRows, laneRows } from '../draw/rows'
import { percent, plural, share } from '../format'
import * as state from '../state'
import { Choice } from './Choice'
import { FlameGraph } from './FlameGraph'

export function FlameTab() {
  const profile = state.profile.value
  const { labels, names } = state.grains.value
  const { filter, inTime, flip, scheme, byLine, found, palette } = state
  const weighted = state.flame.value
  const ordered = profile.timed && !profile.counts // weights are times
  const inOrder = inTime.value && ordered
  const lanes = profile.threads.filter((thread, place) => thread.length && (!filter.value.threads || filter.value.threads.has(place)))
  const rows = useMemo(
    () =>
      inOrder && lanes.length
        ? laneRows(state.boxed.value, weighted.tree, lanes, filter.value)
        : heavyRows(weighted, layout(weighted)),
    [inOrder, weighted],
  )
  const reasons = useMemo(() => (state.waitBoxes.value ? undefined : mainReasons(weighted, profile, state.sums.value)), [weighted])
  const lit = found.value
  const fill = useMemo(() => {
    if (!lit) return state.colours.value.fill
    const nodes = Uint8Array.from(weighted.tree.label, (label) => lit[label]!)
    return faded(state.colours.value.fill, nodes, palette.value.background)
  }, [state.colours.value, lit, palette.value])

  const actions = (label: number) => <LabelActions label={label} />
  return (
    <FlameGraph
      key={state.arrived.value}
      id="flame"
      start={state.zoom.value}
      onView={(view) => (state.zoom.value = view)}
      title={`Flame graph, ${flip.value ? 'callers at the bottom' : 'callers at the top'}`}
      {...{ weighted, rows, fill, names, reasons, lit, actions }}
      waitsIn={(node) => waitsIn(weighted, profile, state.sums.value, node)}
      labels={labels.list}
      flip={flip.value}
      whole={state.sums.value}
      onKey={(key, label) => {
        if (key === 'c') state.showCallers(label)
        const { fnId } = labels.list[label]!
        if (key === 'm') state.toggleShape('merged', fnId)
        if (key === 'f') state.toggleShape('folded', fnId)
        if (key === 'h') state.toggleShape('hidden', state.packageOf.value[fnId]!)
        if (key === 's') state.showSource(labels.list[label]!.file, labels.list[label]!.line)
      }}
      bar={({ reset, zoomed }) => (
        <div class="bar">
          <Choice label="Roots" value={flip.value ? 'flame' : 'icicle'} onChange={(value) => (flip.value = value === 'flame')}
            options={[['icicle', 'at the top (icicle)'], ['flame', 'at the bottom (flame)']]} />
          {ordered && (
            <Choice label="Order" value={inTime.value ? 'time' : 'heavy'} onChange={(value) => (inTime.value = value === 'time')}
              options={[['heavy', 'left-heavy'], ['time', 'by time']]} />
          )}
          <Choice label="Boxes" value={byLine.value ? 'line' : 'function'} onChange={(value) => state.setByLine(value === 'line')}
            options={[['function', 'functions'], ['line', 'lines']]} />
          <Choice label="Colour" value={scheme.value} onChange={(value) => (scheme.value = value)}
            options={[['package', 'by package'], ['language', 'Python or native'], ['thread', 'by thread'], ...(state.hasReasons.value ? [['reason', 'by what was waited for'] as const] : [])]} />
          <WaitBoxes />
          <button type="button" onClick={reset} disabled={!zoomed}>Reset zoom</button>
          {inOrder && <span class="dim">{lanes.length === 1 ? lanes[0]!.name : plural(lanes.length, 'thread')} over time</span>}
          <Legend />
        </div>
      )}
    />
  )
}

// Whether what was waited for has boxes, or rows.
export function WaitBoxes() {
  if (!state.hasReasons.value) return null
  return (
    <Choice label="Waits" value={state.waitBoxes.value ? 'boxes' : 'names'} onChange={(value) => (state.waitBoxes.value = value === 'boxes')}
      options={[['boxes', 'below what waited'], ['names', 'hidden']]} />
  )
}

function Legend() {
  const legend = state.legend.value
  const whole = legend.reduce((sum, { ns }) => sum + ns, 0)
  return (
    <ul class="legend" aria-label={`Colours, with the share of self ${state.kind.value} in this view`}>
      {legend.slice(0, 7).map(({ name, ns, css }) => (
        <li key={name} title={name}>
          <span class="swatch" style={{ background: css }} />
          {name.length > 28 ? `${name.slice(0, 27)}…` : name} <span class="dim">{percent(share(ns, whole))}</span>
        </li>
      ))}
    </ul>
  )
}

export function LabelActions({ label }: { label: number }) {
  const { file, line, fnId } = state.grains.value.labels.list[label]!
  const name = state.packageOf.value[fnId]!
  return (
    <>
      <button type="button" title="Leaves this function out: its time, and what it calls, is its callers'" onClick={() => state.toggleShape('merged', fnId)}>Merge</button>
      <button type="button" title="All that this function calls becomes a part of it" onClick={() => state.toggleShape('folded', fnId)}>Fold</button>
      <button type="button" title="Leaves out all functions of this package: their time is their callers'" onClick={() => state.toggleShape('hidden', name)}>
        Hide {name.length > 20 ? `${name.slice(0, 19)}…` : name}
      </button>
      <button type="button" onClick={() => state.showCallers(label)}>Callers and callees</button>
      {state.profile.value.about.sources[file] !== undefined && (
        <button type="button" onClick={() => state.showSource(file, line)}>Source: {baseName(file)}</button>
      )}
    </>
  )
}
