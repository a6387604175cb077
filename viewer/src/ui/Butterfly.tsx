// Who calls a function and what it calls: lists of its direct callers and callees, and both trees.
import { useMemo, useState } from 'preact/hooks'
import { callees, callers, layout, topLevel, type Weighted } from '../data/tree'
import { byFunction } from '../draw/colour'
import { heavyRows } from '../draw/rows'
import type { Whole } from '../data/aggregate'
import { interval, percent, plural, share } from '../format'
import * as state from '../state'
import { clip, FlameGraph } from './FlameGraph'
import { LabelActions } from './FlameTab'

const LISTED = 12

export function Butterfly() {
  const profile = state.profile.value
  const { labels, nodes, outer, names } = state.grains.value
  const figure = state.rows.value
  const sums = state.sums.value
  const hottest = useMemo(() => figure.selfNs.reduce((best, ns, i) => (ns > figure.selfNs[best]! ? i : best), 0), [figure])
  const label = state.chosen.value >= 0 ? state.chosen.value : hottest
  const up = useMemo(() => callers(profile, nodes, outer(), label, sums), [nodes, label, sums])
  const down = useMemo(() => callees(profile, nodes, outer(), label, sums), [nodes, label, sums])
  if (names.length === 0) return <p class="empty">No samples here.</p>
  const total = figure.totalNs[label]!
  const self = figure.selfNs[label]!
  return (
    <div class="scroll butterfly">
      <div class="bar"><Picker label={label} /></div>
      <p class="lead" data-testid="butterfly-about">
        <strong>{clip(names[label]!)}</strong> {state.amount(total)} in all, {percent(share(total, sums.totalNs))} (95 %: {interval(total, sums, figure.totalSquares?.[label])});{' '}
        {state.amount(self)} itself, {percent(share(self, sums.totalNs))}. {plural(figure.totalSamples[label]!, 'sample')}.
      </p>
      <div class="columns">
        <List title="Callers" weighted={up} total={total} rest="called by nobody (root)" />
        <List title="Callees" weighted={down} total={total} rest="itself" />
      </div>
      <Half id="callers" title="Callers, going up" weighted={up} flip whole={sums} />
      <div class="waist">{clip(names[label]!)}</div>
      <Half id="callees" title="Callees, going down" weighted={down} flip={false} whole={sums} />
      <p class="dim">Recursion counts once: callers and callees are those of the outermost call. {labels.list[label]!.file}</p>
    </div>
  )
}

function Picker({ label }: { label: number }) {
  const { names } = state.grains.value
  const [text, setText] = useState('')
  const wanted = text.toLowerCase()
  const order = useMemo(() => names.map((_, i) => i).sort((a, b) => state.rows.value.totalNs[b]! - state.rows.value.totalNs[a]!), [state.rows.value])
  const shown = order.filter((i) => names[i]!.toLowerCase().includes(wanted)).slice(0, 300)
  return (
    <>
      <label class="choice">
        <span>Find</span>
        <input type="search" value={text} placeholder="part of a name" onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <label class="choice">
        <span>Function</span>
        <select value={label} onChange={(event) => (state.chosen.value = Number(event.currentTarget.value))}>
          {(shown.includes(label) ? shown : [label, ...shown]).map((i) => (
            <option key={i} value={i} selected={i === label}>{names[i]!.length > 90 ? `${names[i]!.slice(0, 89)}…` : names[i]}</option>
          ))}
        </select>
      </label>
    </>
  )
}

function List({ title, weighted, total, rest }: { title: string; weighted: Weighted; total: number; rest: string }) {
  const { names } = state.grains.value
  const top = topLevel(weighted)
  const own = total - top.reduce((sum, node) => sum + weighted.ns[node]!, 0)
  const row = (key: string, ns: number, what: preact.ComponentChildren) => (
    <tr key={key}>
      <td class="number">{state.figure(ns)}</td>
      <td class="number share" style={{ '--share': share(ns, total) }}>{percent(share(ns, total))}</td>
      <td class="wide">{what}</td>
    </tr>
  )
  return (
    <table class="figures" aria-label={title}>
      <caption>{title}</caption>
      <thead><tr><th scope="col" class="number">{state.profile.value.counts || 'Time'}</th><th scope="col" class="number">Part</th><th scope="col" class="wide">Function</th></tr></thead>
      <tbody>
        {top.slice(0, LISTED).map((node) => {
          const label = weighted.tree.label[node]!
          return row(`${label}`, weighted.ns[node]!, <button type="button" class="link" onClick={() => (state.chosen.value = label)}>{clip(names[label]!)}</button>)
        })}
        {top.length > LISTED && row('more', top.slice(LISTED).reduce((sum, node) => sum + weighted.ns[node]!, 0), <span class="dim">{top.length - LISTED} more</span>)}
        {own > 0.5 && row('own', own, <span class="dim">{rest}</span>)}
      </tbody>
    </table>
  )
}

export function Half({ id, title, weighted, flip, whole }: { id: string; title: string; weighted: Weighted; flip: boolean; whole: Whole }) {
  const { labels, names } = state.grains.value
  const rows = useMemo(() => heavyRows(weighted, layout(weighted)), [weighted])
  const fill = useMemo(
    () => byFunction(state.profile.value, state.scheme.value === 'language' ? 'language' : 'package', state.functionTimes.value, weighted.tree, labels, state.dark.value).fill,
    [weighted, labels, state.dark.value, state.scheme.value],
  )
  if (rows.depth === 0) return null
  return (
    <FlameGraph {...{ id, title, weighted, rows, fill, names, flip, whole }} labels={labels.list} lit={null}
      height={Math.min(320, 20 * rows.depth)} actions={(label) => <LabelActions label={label} />} />
  )
}
