// Functions or lines with self and total time, sorted by any column.
import { useState } from 'preact/hooks'
import { baseName } from '../data/labels'
import { count, interval, percent, perCall, perCallInterval, share } from '../format'
import * as state from '../state'
import { Choice } from './Choice'
import { clip } from './FlameGraph'

type Column = 'self' | 'total' | 'samples' | 'calls' | 'each' | 'name' | 'file'
const PAGE = 200

export function Table() {
  const [sort, setSort] = useState<{ by: Column; down: boolean }>({ by: 'self', down: true })
  const [limit, setLimit] = useState(PAGE)
  const { labels, names } = state.grains.value
  const figure = state.rows.value
  const unit = state.profile.value.counts
  const sums = state.sums.value
  const hits = state.found.value
  const chosen = labels.list.map((_, i) => i).filter((i) => figure.totalNs[i]! + figure.totalSamples[i]! > 0 && (!hits || hits[i]))
  const counted = state.calls.value
  const callsOf = (i: number) => counted?.[labels.list[i]!.fnId]?.[0]
  const each = (i: number) => (callsOf(i) ? figure.selfNs[i]! / callsOf(i)! : undefined)
  const value = (by: Exclude<Column, 'name' | 'file'>, i: number) =>
    ({ self: () => figure.selfNs[i]!, total: () => figure.totalNs[i]!, samples: () => figure.selfSamples[i]!, calls: () => callsOf(i) ?? -1, each: () => each(i) ?? -1 })[by]()
  const text = (i: number) => (sort.by === 'name' ? names[i]! : labels.list[i]!.file)
  chosen.sort((a, b) => {
    const order = sort.by === 'name' || sort.by === 'file' ? (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0) : value(sort.by, a) - value(sort.by, b)
    return (sort.down ? -order : order) || figure.totalNs[b]! - figure.totalNs[a]! || a - b
  })
  const head = (by: Column, title: string, cls = '', hint?: string) => (
    <th scope="col" class={cls} title={hint} aria-sort={sort.by === by ? (sort.down ? 'descending' : 'ascending') : 'none'}>
      <button type="button" onClick={() => setSort({ by, down: sort.by === by ? !sort.down : by !== 'name' && by !== 'file' })}>
        {title}
        <span aria-hidden="true">{sort.by === by ? (sort.down ? ' ▾' : ' ▴') : ''}</span>
      </button>
    </th>
  )
  const callCells = (i: number) => {
    const [calls, one] = [callsOf(i), each(i)]
    return (
      <>
        <td class="number">{calls === undefined ? '' : count(calls)}</td>
        <td class="number">{one === undefined ? '' : perCall(one, state.profile.value.counts)}</td>
        <td class="number dim">{calls && one !== undefined ? perCallInterval(figure.selfNs[i]!, sums, calls, figure.selfSquares?.[i], state.profile.value.counts) : ''}</td>
      </>
    )
  }
  const cells = (ns: number, squares = 0) => (
    <>
      <td class="number">{state.figure(ns)}</td>
      <td class="number share" style={{ '--share': share(ns, sums.totalNs) }}>{percent(share(ns, sums.totalNs))}</td>
      <td class="number dim">{interval(ns, sums, squares)}</td>
    </>
  )
  return (
    <>
      <div class="bar">
        <Choice label="Rows" value={state.byLine.value ? 'line' : 'function'} onChange={(value) => state.setByLine(value === 'line')}
          options={[['function', 'functions'], ['line', 'lines']]} />
        <span class="dim">{count(chosen.length)} rows. The ranges hold the true share in 95 of 100 runs, as far as sampling decides it.</span>
        {counted && state.profile.value.about.calls_missing && <span class="dim">Not counted: {state.profile.value.about.calls_missing}.</span>}
      </div>
      <div class="scroll">
      <table class="figures" aria-label={`Self and total ${state.kind.value}`} aria-rowcount={chosen.length + 1}>
        <thead>
          <tr>
            {head('self', `Self ${unit}`.trimEnd())}
            <th scope="col" class="number">Share</th>
            <th scope="col" class="number">95 % range</th>
            {head('total', `Total ${unit}`.trimEnd())}
            <th scope="col" class="number">Share</th>
            <th scope="col" class="number">95 % range</th>
            {head('samples', 'Self samples', '', 'Samples in the function itself')}
            {counted && head('calls', 'Calls', '', 'How often its body began: an exact count')}
            {counted && head('each', 'Self a call', '', 'Sampled time in the function itself, divided by its calls')}
            {counted && <th scope="col" class="number">95 % range</th>}
            {head('name', 'Function', 'wide')}
            {head('file', 'File', 'wide')}
          </tr>
        </thead>
        <tbody>
          {chosen.slice(0, limit).map((i) => {
            const { fn, file, line } = labels.list[i]!
            return (
              <tr key={i}>
                {cells(figure.selfNs[i]!, figure.selfSquares?.[i])}
                {cells(figure.totalNs[i]!, figure.totalSquares?.[i])}
                <td class="number">{count(figure.selfSamples[i]!)}</td>
                {counted && callCells(i)}
                <td class="wide">
                  <button type="button" class="link" onClick={() => state.showCallers(i)} title="Callers and callees">{clip(fn.qualname)}</button>
                </td>
                <td class="wide">
                  {state.profile.value.about.sources[file] !== undefined ? (
                    <button type="button" class="link dim" title={clip(file, true)} onClick={() => state.showSource(file, line)}>
                      {clip(baseName(file))}{line ? `:${line}` : ''}
                    </button>
                  ) : (
                    <span class="dim" title={clip(file, true)}>{clip(baseName(file))}{line ? `:${line}` : ''}</span>
                  )}
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
      {chosen.length > limit && (
        <button type="button" class="more" onClick={() => setLimit(limit + 5 * PAGE)}>
          Show more: {count(limit)} of {count(chosen.length)} rows are shown
        </button>
      )}
      {chosen.length === 0 && <p class="empty">{hits ? 'No function matches the search.' : 'No samples here.'}</p>}
      </div>
    </>
  )
}
