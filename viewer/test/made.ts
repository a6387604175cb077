// Profiles made by hand: functions are named `f`, `f:line` or `f:line:col-endCol`.
import { Kind, type Profile, type Thread, type Wait } from '../src/data/profile'
import { withWaits } from '../src/data/waits'

export interface Sample {
  stack: string // frames from root to leaf, with spaces between
  time: number
  weight: number
  thread?: number
  ticks?: number
  label?: number
  flags?: number
  wait?: Wait
}

export function made(samples: Sample[], labelSets: Record<string, string>[] = [{}]): Profile {
  const fnIds = new Map<string, number>()
  const frameIds = new Map<string, number>()
  const nodeIds = new Map<string, number>()
  const stackIds = new Map<string, number>()
  const [waits, waited] = [[] as Wait[], [] as number[]]
  const columns = { fn: [] as number[], line: [] as number[], endLine: [] as number[], col: [] as number[], endCol: [] as number[] }
  const [parent, frame, stacks] = [[0], [0], [] as number[]]
  const frameOf = (text: string): number => {
    if (!frameIds.has(text)) {
      const [name, line, span] = text.split(':')
      if (!fnIds.has(name!)) fnIds.set(name!, fnIds.size)
      frameIds.set(text, frameIds.size)
      columns.fn.push(fnIds.get(name!)!)
      columns.line.push(Number(line ?? 1))
      columns.endLine.push(Number(line ?? 1))
      columns.col.push(span ? Number(span.split('-')[0]) + 1 : 0)
      columns.endCol.push(span ? Number(span.split('-')[1]) + 1 : 0)
    }
    return frameIds.get(text)!
  }
  const nodeOf = (stack: string[]): number => {
    if (stack.length === 0) return 0
    const key = stack.join(' ')
    if (!nodeIds.has(key)) {
      const above = nodeOf(stack.slice(0, -1))
      nodeIds.set(key, parent.length)
      parent.push(above)
      frame.push(frameOf(stack[stack.length - 1]!))
    }
    return nodeIds.get(key)!
  }
  const threads = new Map<number, Sample[]>()
  for (const sample of samples) threads.set(sample.thread ?? 0, [...(threads.get(sample.thread ?? 0) ?? []), sample])
  const list = [...threads].map(([id, some]): Thread => {
    const stack = some.map((sample) => {
      const node = nodeOf(sample.stack.split(' '))
      const key = `${node} ${sample.wait ?? ''}`
      if (!stackIds.has(key)) {
        stackIds.set(key, stacks.length)
        stacks.push(node)
        if (sample.wait && !waits.some((one) => `${one}` === `${sample.wait}`)) waits.push(sample.wait)
        waited.push(1 + waits.findIndex((one) => `${one}` === `${sample.wait}`))
      }
      return stackIds.get(key)!
    })
    const column = (pick: (sample: Sample) => number) => Uint32Array.from(some, pick)
    return {
      id, tid: 100 + id, name: `thread ${id}`, length: some.length, time: column((s) => s.time), weight: column((s) => s.weight),
      stack: Uint32Array.from(stack), extraTicks: column((s) => (s.ticks ?? 1) - 1), flags: column((s) => s.flags ?? 0), label: column((s) => s.label ?? 0),
    }
  })
  const zeros = new Uint32Array(columns.fn.length)
  const frames = Object.fromEntries(Object.entries(columns).map(([key, values]) => [key, Uint32Array.from(values)]))
  const profile: Profile = {
    about: { unit: 'nanoseconds', unit_ns: 1000, sources: {}, changed: [], without: {} } as never,
    type: 'time',
    counts: '',
    timed: true,
    unit: 1000,
    weightUnit: 1000,
    duration: Math.max(1, ...samples.map((sample) => sample.time)),
    fns: [...fnIds.keys()].map((name) => ({ name, qualname: name, file: `/app/${name}.py`, line: 1, kind: Kind.Python })),
    strings: [],
    frames: { ...frames, source: zeros, sourceLine: zeros } as never,
    parent: Uint32Array.from(parent),
    frame: Uint32Array.from(frame),
    stacks: Uint32Array.from(stacks),
    leaves: Uint32Array.from(stacks),
    holders: Uint32Array.from(waited),
    waits,
    waited: Uint32Array.from(waited),
    threads: list,
    markers: [],
    labelSets,
  }
  return withWaits([profile])[0]!
}
