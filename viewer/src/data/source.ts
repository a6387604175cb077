// Time in the lines of source files, and in pieces of lines.
import type { Figures } from './figures'
import type { Label } from './labels'

export interface Span {
  col: number // UTF-8 byte offset
  endCol: number // -1: the end of the line
  selfNs: number
  totalNs: number
}

export interface Line {
  line: number
  selfNs: number
  totalNs: number
  selfSamples: number
  totalSamples: number
  spans: Span[] // the widest first
}

export interface File {
  file: string
  selfNs: number
  lines: Map<number, Line>
}

// The hottest file first.
export function sourceLines(places: Label[], of: Figures, spans: Label[], ofSpans: Figures): File[] {
  const files = new Map<string, File>()
  places.forEach(({ file, line }, i) => {
    if (!line || !of.totalSamples[i]) return
    const known = files.get(file) ?? { file, selfNs: 0, lines: new Map<number, Line>() }
    files.set(file, known)
    known.selfNs += of.selfNs[i]!
    known.lines.set(line, {
      line, selfNs: of.selfNs[i]!, totalNs: of.totalNs[i]!, selfSamples: of.selfSamples[i]!, totalSamples: of.totalSamples[i]!, spans: [],
    })
  })
  spans.forEach(({ file, line, col, endCol }, i) => {
    if (col >= 0 && ofSpans.totalSamples[i]) {
      files.get(file)?.lines.get(line)?.spans.push({ col, endCol, selfNs: ofSpans.selfNs[i]!, totalNs: ofSpans.totalNs[i]! })
    }
  })
  const width = (span: Span) => (span.endCol < 0 ? 1e9 : span.endCol) - span.col
  for (const { lines } of files.values()) for (const { spans } of lines.values()) spans.sort((a, b) => width(b) - width(a) || a.col - b.col)
  return [...files.values()].sort((a, b) => b.selfNs - a.selfNs || (a.file < b.file ? -1 : 1))
}

// Where a UTF-8 byte offset lies in a string.
export function indexOfByte(text: string, offset: number): number {
  let bytes = 0
  for (let i = 0; i < text.length; ) {
    if (bytes >= offset) return i
    const code = text.codePointAt(i)!
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
    i += code < 0x10000 ? 1 : 2
  }
  return text.length
}

export interface Piece {
  text: string
  span: Span | null // the narrowest span around it
}

// A line cut where spans begin and end.
export function pieces(text: string, spans: Span[]): Piece[] {
  const places = spans.map((span) => {
    const from = indexOfByte(text, span.col)
    return { span, from, to: span.endCol < 0 ? text.length : Math.max(from, indexOfByte(text, span.endCol)) }
  })
  const cuts = [...new Set([0, text.length, ...places.flatMap(({ from, to }) => [from, to])])].sort((a, b) => a - b)
  return cuts.slice(0, -1).map((from, i) => {
    const inside = places.filter((place) => place.from <= from && from < place.to)
    return { text: text.slice(from, cuts[i + 1]), span: inside[inside.length - 1]?.span ?? null }
  })
}
