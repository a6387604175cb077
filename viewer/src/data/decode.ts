// Reads what spprof/formats/html.py writes; that file's beginning says how it is laid out.
import type { About, Frames, Profile, Thread } from './profile'
import { withWaits } from './waits'

export async function unpack(base64: string): Promise<Uint8Array> {
  const stream = new Blob([bytesOf(base64.trim())]).stream().pipeThrough(new DecompressionStream('deflate'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const fast = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64
  if (fast) return fast.call(Uint8Array, base64)
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i)
  return bytes
}

class Reader {
  at = 0
  constructor(private bytes: Uint8Array) {}

  u32(): number {
    const b = this.bytes
    const at = this.take(4)
    return (b[at]! | (b[at + 1]! << 8) | (b[at + 2]! << 16) | (b[at + 3]! << 24)) >>> 0
  }

  json(): About {
    const length = this.u32()
    const at = this.take(length)
    return JSON.parse(new TextDecoder().decode(this.bytes.subarray(at, at + length))) as About
  }

  // The next column, with room for `before` zeros in front; null if all its values are 0.
  column(before = 0): { n: number; values: Uint32Array | null } {
    const n = this.u32()
    const width = this.bytes[this.take(1)]!
    if (width > 4) throw new Error('a column is wider than 32 bits')
    if (width === 0) return { n, values: null }
    const values = new Uint32Array(n + before)
    for (let plane = 0; plane < width; plane++) {
      const at = this.take(n)
      const bytes = this.bytes
      if (plane === 0) values.set(bytes.subarray(at, at + n), before)
      else for (let i = 0, shift = 8 * plane; i < n; i++) values[i + before]! |= bytes[at + i]! << shift
    }
    return { n, values }
  }

  full(before = 0): Uint32Array {
    const { n, values } = this.column(before)
    return values ?? new Uint32Array(n + before)
  }

  private take(n: number): number {
    const at = this.at
    this.at += n
    if (this.at > this.bytes.length) throw new Error('the profile in this page was cut short')
    return at
  }
}

// A profile of each type of samples.
export function decode(bytes: Uint8Array): Profile[] {
  const reader = new Reader(bytes)
  const about = reader.json()
  if (about.format !== 1) throw new Error(`this page cannot read format ${about.format}`)
  const strings = about.strings
  const fns = about.functions.map(([name, qualname, file, line, kind]) => ({
    name: strings[name]!, qualname: strings[qualname]!, file: strings[file]!, line, kind,
  }))
  const full = () => reader.full()
  const frames: Frames = {
    fn: full(), line: full(), endLine: full(), col: full(), endCol: full(), source: full(), sourceLine: full(),
  }
  const parent = reader.full(1)
  for (let node = 1; node < parent.length; node++) parent[node] = node - parent[node]!
  const frame = reader.full(1)
  const [stacks, waited] = [reader.full(), reader.full()]
  const types = [about, ...(about.others ?? []).map((other): About => ({ ...about, ...other }))].map((about) => {
    const counts = about.unit === 'nanoseconds' ? '' : about.unit
    const threads = about.threads.map(([id, tid, name]) => thread(reader, id, tid, name, counts !== ''))
    return { about, counts, threads }
  })
  const markers = about.markers.map(([name, thread, time, duration, data]) => ({ name, thread, time, duration, data }))
  const ends = [...types.flatMap(({ threads }) => threads.map((t) => t.time[t.length - 1] ?? 0)), ...markers.map((m) => m.time + m.duration)]
  const stop = ((about.end?.stop_ns ?? 0) - about.start_ns) / about.unit_ns
  const duration = Math.ceil(Math.max(1, stop, ends.reduce((a, b) => Math.max(a, b), 0)))
  return withWaits(types.map((type) => ({
    ...type, type: String(type.about.header.event ?? 'time'), timed: hasTimes(type), unit: about.unit_ns,
    weightUnit: type.counts ? type.about.weight_unit ?? 1 : about.unit_ns, duration, fns, strings, frames, parent, frame, stacks, leaves: stacks, holders: waited, markers, waits: about.waits, waited, labelSets: about.label_sets,
  })))
}

function hasTimes({ about, counts }: Pick<Profile, 'about' | 'counts'>): boolean {
  const { source } = about.header // another profiler
  return !source || (!counts && !['collapsed', 'pprof'].includes(String(source)))
}

function thread(reader: Reader, id: number, tid: number, name: string, counted: boolean): Thread {
  const time = reader.full() // steps, until they are summed
  const weight = reader.full() // of time: corrections, until the steps are added
  let at = 0
  for (let i = 0; i < time.length; i++) {
    const step = time[i]!
    at += step
    time[i] = at
    if (counted) continue
    const zigzag = weight[i]!
    weight[i] = step + ((zigzag >>> 1) ^ -(zigzag & 1))
  }
  const stack = reader.full()
  const [extraTicks, flags, label] = [reader.column().values, reader.column().values, reader.column().values]
  return { id, tid, name, length: time.length, time, weight, stack, extraTicks, flags, label }
}
