// What the views tell apart: each frame has a label, which is one of the grains below.
import { Kind, type Fn, type Frames, type Profile } from './profile'

export interface Label {
  fn: Fn
  fnId: number
  file: string // where it was written: of native functions the source if known, else the library
  line: number // 0: unknown
  col: number // of spans: UTF-8 byte offset in the line, -1: unknown
  endCol: number // -1: unknown, or in a later line
}

export interface Labels {
  of: Uint32Array // frame -> label
  list: Label[]
}

// A function, a line of one, a line of a file, or a piece of such a line.
export type Grain = 'function' | 'line' | 'place' | 'span'

export function labels(profile: Profile, grain: Grain): Labels {
  const { frames, fns, strings } = profile
  const known = new Map<string, number>()
  const list: Label[] = []
  const of = new Uint32Array(frames.fn.length)
  for (let frame = 0; frame < of.length; frame++) {
    const fnId = frames.fn[frame]!
    const fn = fns[fnId]!
    const source = frames.source[frame]!
    let { file, line } = fn
    if (grain !== 'function') {
      if (source) [file, line] = [strings[source - 1]!, frames.sourceLine[frame]!]
      else line = fn.kind === Kind.Native ? 0 : frames.line[frame]!
    }
    const [col, endCol] = grain === 'span' ? columns(frames, frame) : [-1, -1]
    const key = grain === 'function' ? `${fnId}` : grain === 'line' ? `${fnId} ${line} ${source}` : `${line} ${col} ${endCol} ${file}`
    let label = known.get(key)
    if (label === undefined) {
      known.set(key, (label = list.length))
      list.push({ fn, fnId, file, line, col, endCol })
    }
    of[frame] = label
  }
  return { of, list }
}

function columns(frames: Frames, frame: number): [number, number] {
  const later = frames.endLine[frame]! > frames.line[frame]!
  return [frames.col[frame]! - 1, later ? -1 : frames.endCol[frame]! - 1]
}

export function nodeLabels(profile: Profile, labels: Labels): Uint32Array {
  const result = new Uint32Array(profile.frame.length)
  for (let node = 1; node < result.length; node++) result[node] = labels.of[profile.frame[node]!]!
  return result
}

export function baseName(path: string): string {
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1)
}

// As `spprof report` shows it: `function (file:line)`, `function [library]`.
export function shown(label: Label): string {
  const { fn, file, line } = label
  if (fn.kind === Kind.Native) {
    const where = file !== fn.file && line ? ` (${baseName(file)}:${line})` : ''
    return fn.qualname + where + (fn.file ? ` [${baseName(fn.file)}]` : '')
  }
  return fn.kind === Kind.Mark ? fn.qualname : `${fn.qualname} (${baseName(file)}:${line})`
}
