// The call tree in rows that one opens, from the roots or from where the time was spent.
import { useMemo, useState } from 'preact/hooks'
import { callTree, invertedTree, type Call } from '../data/calls'
import { count, interval, percent, share } from '../format'
import * as state from '../state'
import { Choice } from './Choice'
import { clip } from './FlameGraph'
import { WaitBoxes } from './FlameTab'

const LISTED = 50 // of what a row calls, until more is asked for
const INDENT = 14
const DEEPEST = 40 // levels that are indented
const HEAVY = 0.3 // of all: such rows are open at first

export function CallTree() {
  const weighted = state.flame.value
  const inverted = state.inverted.value
  const roots = useMemo(() => (inverted ? invertedTree(weighted) : callTree(weighted)), [weighted, inverted])
  const whole = state.sums.value.totalNs
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set()) // rows that are not as at first
  const [more, setMore] = useState<ReadonlySet<string>>(new Set())
  const flip = (old: ReadonlySet<string>, key: string) => new Set(old.has(key) ? [...old].filter((one) => one !== key) : [...old, key])
  const rows: { call?: Call; depth: number; path: string; open?: boolean; leaf?: boolean; hiding?: number }[] = []
  const list = (calls: Call[], depth: number, above: string): void => {
    const some = more.has(above) ? calls : calls.slice(0, LISTED)
    for (const call of some) {
      const path = `${above}/${call.label}`
      const open = toggled.has(path) !== (share(call.ns, whole) >= HEAVY && depth < DEEPEST && !inverted)
      const below = open ? call.below() : []
      rows.push({ call, depth, path, open, leaf: open && below.length === 0 })
      list(below, depth + 1, path)
    }
    if (some.length < calls.length) rows.push({ depth, path: above, hiding: calls.length - some.length })
  }
  list(roots, 0, '')
  const { labels, names } = state.grains.value
  const hits = state.found.value
  return (
    <>
      <div class="bar">
        <Choice label="Tree" value={inverted ? 'inverted' : 'calls'} onChange={(value) => (state.inverted.value = value === 'inverted')}
          options={[['calls', 'callers, then what they call'], ['inverted', 'inverted: where time was spent, then its callers']]} />
        <Choice label="Rows" value={state.byLine.value ? 'line' : 'function'} onChange={(value) => state.setByLine(value === 'line')}
          options={[['function', 'functions'], ['line', 'lines']]} />
        <WaitBoxes />
      </div>
      <div class="scroll">
        <table class="figures calls" aria-label={inverted ? 'Inverted call tree' : 'Call tree'}>
          <thead>
            <tr>
              <th scope="col">Total {state.profile.value.counts}</th><th scope="col">Share</th><th scope="col">95 % range</th>
              <th scope="col">Self</th><th scope="col">Total samples</th><th scope="col" class="wide">Function</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ call, depth, path, open, leaf, hiding }) => (
              call ? (
                <tr key={path} class={hits && !hits[call.label] ? 'faint' : ''}>
                  <td class="number">{state.figure(call.ns)}</td>
                  <td class="number share" style={{ '--share': share(call.ns, whole) }}>{percent(share(call.ns, whole))}</td>
                  <td class="number dim">{interval(call.ns, state.sums.value)}</td>
                  <td class="number">{call.self ? state.figure(call.self) : ''}</td>
                  <td class="number">{count(call.samples)}</td>
                  <td class="wide" style={{ paddingLeft: `${8 + INDENT * Math.min(depth, DEEPEST)}px` }}>
                    <button type="button" class="link" aria-expanded={open} aria-level={depth + 1} title={clip(labels.list[call.label]!.file, true)}
                      onClick={() => setToggled((old) => flip(old, path))}>
                      <span class="fold" aria-hidden="true">{leaf ? '·' : open ? '▾' : '▸'}</span>{clip(names[call.label]!)}
                    </button>
                  </td>
                </tr>
              ) : (
                <tr key={`${path} more`}>
                  <td colSpan={5} />
                  <td class="wide" style={{ paddingLeft: `${8 + INDENT * Math.min(depth, DEEPEST)}px` }}>
                    <button type="button" class="link dim" onClick={() => setMore((old) => flip(old, path))}>{count(hiding!)} more</button>
                  </td>
                </tr>
              )
            ))}
          </tbody>
        </table>
        {rows.length === 0 && <p class="empty">No samples here.</p>}
      </div>
    </>
  )
}
