// The text of a file with the time of each line, and within a line of each piece of it.
import { useEffect, useRef, useState } from 'preact/hooks'
import { baseName } from '../data/labels'
import { pieces, type Line } from '../data/source'
import { capital, interval, percent, share } from '../format'
import * as state from '../state'
import { clip } from './FlameGraph'

export function Source() {
  const { sources, changed, without } = state.profile.value.about
  const files = state.lines.value
  const place = state.place.value
  const file = files.find((one) => one.file === place?.file) ?? files.find((one) => sources[one.file] !== undefined) ?? files[0]
  const list = useRef<HTMLDivElement>(null)
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())

  const name = place && sources[place.file] !== undefined ? place.file : file?.file
  const target = place && place.file === name ? place.line : 0
  const lines = file && file.file === name ? file.lines : new Map<number, Line>()
  const hottest = [...lines.values()].sort((a, b) => b.selfNs - a.selfNs).filter((line) => line.selfNs > 0).slice(0, 5)
  useEffect(() => {
    list.current?.querySelector(`[data-line="${target || hottest[0]?.line}"]`)?.scrollIntoView({ block: 'center' })
  }, [name, place])

  if (name === undefined) return <p class="empty">No samples with a line of source here.</p>
  const text = sources[name]
  const toggle = (key: string) => setOpened((old) => new Set(old.has(key) ? [...old].filter((one) => one !== key) : [...old, key]))
  const whole = state.sums.value
  const peak = [...lines.values()].reduce((most, { totalNs }) => Math.max(most, totalNs), 0)
  return (
    <>
      <div class="bar">
        <label class="choice">
          <span>File</span>
          <select value={name} onChange={(event) => (state.place.value = { file: event.currentTarget.value, line: 0 })}>
            {(files.some((one) => one.file === name) ? files : [...files, { file: name, selfNs: 0 }]).map((one) => (
              <option key={one.file} value={one.file} selected={one.file === name}>
                {percent(share(one.selfNs, whole.totalNs))} {clip(one.file, true)}
                {sources[one.file] === undefined ? ' (no text)' : ''}
              </option>
            ))}
          </select>
        </label>
        {hottest.length > 0 && <span class="dim">Hottest lines:</span>}
        {hottest.map((line) => (
          <button type="button" key={line.line} onClick={() => (state.place.value = { file: name, line: line.line })}>
            {line.line}: {percent(share(line.selfNs, whole.totalNs))}
          </button>
        ))}
      </div>
      <div class="scroll" ref={list}>
      {changed.includes(name) && <p class="warning" role="alert">This file was changed after the profile was begun: lines may not fit.</p>}
      <table class="code" aria-label={`${capital(state.kind.value)} of each line of ${baseName(name)}`}>
        <thead>
          <tr><th scope="col">Self</th><th scope="col">Total</th><th scope="col">Line</th><th scope="col" class="wide">{clip(name, true)}</th></tr>
        </thead>
        <tbody>
          {text === undefined
            ? [...lines.values()].sort((a, b) => a.line - b.line).map((line) => (
                <CodeLine key={line.line} number={line.line} text="" line={line} {...{ target, peak }} open={false} toggle={() => {}} />
              ))
            : splitLines(text).map((code, i) => (
                <CodeLine key={`${name} ${i}`} number={i + 1} text={code} line={lines.get(i + 1)} {...{ target, peak }}
                  open={opened.has(`${name} ${i + 1}`)} toggle={() => toggle(`${name} ${i + 1}`)} />
              ))}
        </tbody>
      </table>
      {text === undefined && <p class="empty">The text of this file is not in the page: {without[name] ?? 'it was left out'}.</p>}
      </div>
    </>
  )
}

// As Python counts lines.
export function splitLines(text: string): string[] {
  const lines = text.split(/\r\n|\r|\n/)
  if (lines[lines.length - 1] === '') lines.pop()
  return lines
}

interface CodeProps {
  number: number
  text: string
  line: Line | undefined
  target: number
  peak: number // the most that a line of the file has
  open: boolean
  toggle: () => void
}

function CodeLine({ number, text, line, target, peak, open, toggle }: CodeProps) {
  const sums = state.sums.value
  const cell = (ns: number, kind: string) => (
    <td class="number share" style={{ '--share': share(ns, peak) }}
      title={ns ? `${kind} ${percent(share(ns, sums.totalNs))} (95 %: ${interval(ns, sums)})` : undefined}>
      {ns ? state.figure(ns) : ''}
    </td>
  )
  const shown = line?.spans.filter((span) => span.totalNs > 0) ?? []
  const parts = line && text ? pieces(text, line.spans) : [{ text, span: null }]
  const most = Math.max(...shown.map((span) => span.totalNs), 0)
  return (
    <>
      <tr data-line={number} class={[line ? 'hot' : '', number === target ? 'target' : ''].join(' ')}>
        {cell(line?.selfNs ?? 0, 'itself')}
        {cell(line?.totalNs ?? 0, 'in all')}
        <td class="number">
          {shown.length > 0 ? (
            <button type="button" class="link" aria-expanded={open} onClick={toggle} title="Pieces of this line">{number}</button>
          ) : number}
        </td>
        <td class="wide">
          <code>
            {parts.map(({ text, span }, i) =>
              span && span.totalNs > 0 ? (
                <mark key={i} style={{ '--heat': 0.12 + 0.5 * share(span.totalNs, most) * Math.min(1, 0.25 + share(span.totalNs, sums.totalNs)) }}
                  title={`${state.amount(span.totalNs)} in all, ${state.amount(span.selfNs)} itself`}>
                  {text}
                </mark>
              ) : text,
            )}
          </code>
        </td>
      </tr>
      {open && shown.map((span) => (
        <tr key={`${number} ${span.col} ${span.endCol}`} class="span" data-span={`${number}:${span.col}-${span.endCol}`}>
          {cell(span.selfNs, 'itself')}
          {cell(span.totalNs, 'in all')}
          <td class="number dim">{span.col + 1}</td>
          <td class="wide"><code>{pieces(text, [span]).find((piece) => piece.span)?.text.trimEnd()}</code></td>
        </tr>
      ))}
    </>
  )
}
