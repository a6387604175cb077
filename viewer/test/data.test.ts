import { describe, expect, test } from 'vitest'
import { activity, after, aggregate, EVERYTHING, hasOffCpu, isEverything, labelValues, lanesOf } from '../src/data/aggregate'
import { decode, unpack } from '../src/data/decode'
import { figures, outermost, samplesOf, wilson } from '../src/data/figures'
import { labels, nodeLabels } from '../src/data/labels'
import { interval, perCall, perCallInterval } from '../src/format'
import { indexOfByte, pieces, sourceLines } from '../src/data/source'
import { callTree, invertedTree, type Call } from '../src/data/calls'
import { reshape, Role } from '../src/data/shape'
import { callees, callers, layout, topLevel, treeOf, weighted } from '../src/data/tree'
import { holderKey, holdersOf, mainReasons, reasonSums, someSums, waitsIn } from '../src/data/waits'
import type { Profile } from '../src/data/profile'
import { made } from './made'

const KNOWN = made([
  { stack: 'm a', time: 10, weight: 10 },
  { stack: 'm a b', time: 40, weight: 30, label: 1 },
  { stack: 'm a b a', time: 100, weight: 60, ticks: 3 },
  { stack: 'm c', time: 200, weight: 100, label: 1 },
  { stack: 't b', time: 50, weight: 50, thread: 1, label: 2 },
], [{}, { request: '1', user: 'x' }, { request: '2' }])

function functions(profile: Profile, sums = aggregate(profile)) {
  const list = labels(profile, 'function')
  const nodes = nodeLabels(profile, list)
  const outer = outermost(profile.parent, nodes, list.list.length)
  const of = (name: string) => list.list.findIndex((label) => label.fn.name === name)
  return { list, nodes, outer, of, sums, figure: figures(profile, nodes, outer, list.list.length, sums) }
}

describe('sums', () => {
  test('of all', () => {
    expect(aggregate(KNOWN)).toMatchObject({ totalNs: 250_000, totalSamples: 7 })
  })
  test('of a thread, a range and a label', () => {
    expect(aggregate(KNOWN, { ...EVERYTHING, threads: new Set([1]) })).toMatchObject({ totalNs: 50_000, totalSamples: 1 })
    expect(aggregate(KNOWN, { ...EVERYTHING, range: [40, 100] })).toMatchObject({ totalNs: 80_000, totalSamples: 2 })
    expect(aggregate(KNOWN, { ...EVERYTHING, labels: { request: '1' } })).toMatchObject({ totalNs: 130_000, totalSamples: 2 })
    expect(aggregate(KNOWN, { ...EVERYTHING, labels: { request: '2', user: 'x' } }).totalSamples).toBe(0)
  })
  test('the effective number of samples: (sum w)^2 / sum w^2 / ticks, by hand', () => {
    expect(aggregate(KNOWN).effective).toBeCloseTo(250 ** 2 / (10 ** 2 + 30 ** 2 + 60 ** 2 / 3 + 100 ** 2 + 50 ** 2), 9)
    expect(aggregate(KNOWN, { ...EVERYTHING, labels: { request: '2' } }).effective).toBe(1)
    expect(aggregate(KNOWN, { ...EVERYTHING, range: [0, 1] }).effective).toBe(0)
  })
  test('time of which nobody knows whose it was: kernel time and coarse samples, but not of a thread that stood', () => {
    const some = made([
      { stack: 'a', time: 10, weight: 10 },
      { stack: 'a', time: 15, weight: 5, flags: 2 },
      { stack: 'b', time: 22, weight: 7, flags: 32 },
      { stack: 'b', time: 53, weight: 31, flags: 4 | 32, label: 1 },
    ], [{}, { x: '1' }])
    expect(aggregate(some).unknownNs).toBe(12_000)
    expect(aggregate(some, { ...EVERYTHING, range: [0, 22] }).unknownNs).toBe(5_000)
    expect(aggregate(some, { ...EVERYTHING, labels: { x: '1' } }).unknownNs).toBe(0)
  })
  test('of threads that ran, and of those that waited', () => {
    const both = made([{ stack: 'a', time: 10, weight: 10 }, { stack: 'a', time: 30, weight: 20, flags: 4 | 1, label: 1 }], [{}, { x: '1' }])
    const of = (filter: object) => aggregate(both, { ...EVERYTHING, ...filter }).totalNs
    expect([hasOffCpu(both), hasOffCpu(KNOWN)]).toEqual([true, false])
    expect([of({ cpu: 'on' }), of({ cpu: 'off' }), of({ cpu: 'on', labels: { x: '1' } })]).toEqual([10_000, 20_000, 0])
    expect(isEverything({ ...EVERYTHING, cpu: 'on' })).toBe(false)
  })
  test('labels that occur', () => {
    expect([...labelValues(KNOWN)]).toEqual([['request', ['1', '2']], ['user', ['x']]])
  })
  test('the time of a call has the interval of its share', () => {
    const whole = { totalNs: 1e9, effective: 1000, unknownNs: 0 }
    const [low, high] = wilson(0.5, 1000)
    expect(perCallInterval(0.5e9, whole, 1_000_000)).toBe(`${(1000 * low).toFixed(0)} ns–${(1000 * high).toFixed(0)} ns`)
    expect(perCallInterval(0.5e9, { ...whole, unknownNs: 0.6e9 }, 7)).toBe('?')
    expect([7.123, 74.51, 144.4, 1440, 2.5e6].map((one) => perCall(one))).toEqual(['7.12 ns', '74.5 ns', '144 ns', '1.4 µs', '2.50 ms'])
  })
  test('counts are of all threads, times and labels only', () => {
    expect(isEverything(EVERYTHING)).toBe(true)
    expect([{ threads: new Set([0]) }, { range: [0, 1] as const }, { labels: { a: 'b' } }].map((part) => isEverything({ ...EVERYTHING, ...part }))).toEqual([false, false, false])
  })
  test('after finds the first that is not below', () => {
    expect([0, 1, 2, 4, 5].map((value) => after(Uint32Array.of(1, 3, 3, 4), value))).toEqual([0, 0, 1, 3, 4])
  })
})

test('self and total figures; recursion counts once', () => {
  const { of, figure } = functions(KNOWN)
  const row = (name: string) => [figure.selfNs, figure.totalNs, figure.selfSamples, figure.totalSamples].map((column) => column[of(name)])
  expect(row('m')).toEqual([0, 200_000, 0, 6])
  expect(row('a')).toEqual([70_000, 100_000, 4, 5])
  expect(row('b')).toEqual([80_000, 140_000, 2, 5])
  expect(row('c')).toEqual([100_000, 100_000, 1, 1])
})

test('figures equal a slow computation by stacks', () => {
  let seed = 1
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n
  const samples = Array.from({ length: 500 }, (_, i) => ({
    stack: Array.from({ length: 1 + random(9) }, () => 'abcd'[random(4)]).join(' '), time: i, weight: 1 + random(50),
  }))
  const { of, figure } = functions(made(samples))
  for (const name of 'abcd') {
    const sum = (some: typeof samples) => some.reduce((total, { weight }) => total + 1000 * weight, 0)
    expect(figure.selfNs[of(name)]).toBe(sum(samples.filter(({ stack }) => stack.endsWith(name))))
    expect(figure.totalNs[of(name)]).toBe(sum(samples.filter(({ stack }) => stack.includes(name))))
  }
})

// What defines the interval: at its ends the observed share is exactly z standard errors away.
test.each([[0.5, 100], [0, 10], [1, 10], [0.1, 1000], [0.003, 50]])('wilson(%d, %d)', (p, n) => {
  const [low, high] = wilson(p, n)
  expect(low <= p && p <= high).toBe(true)
  for (const end of [low, high]) {
    if (end > 0 && end < 1) expect(Math.abs(p - end)).toBeCloseTo(1.959964 * Math.sqrt((end * (1 - end)) / n), 9)
  }
  expect([low > 0, high < 1]).toEqual([p > 0, p < 1])
})

test('no samples tell nothing', () => expect(wilson(0, 0)).toEqual([0, 1]))

describe('callers and callees', () => {
  const { nodes, outer, of, sums, list } = functions(KNOWN)
  const top = (weighted: ReturnType<typeof callers>) =>
    topLevel(weighted).map((node) => [list.list[weighted.tree.label[node]!]!.fn.name, weighted.ns[node], weighted.samples[node]])
  test('of b: both callers', () => {
    const up = callers(KNOWN, nodes, outer, of('b'), sums)
    expect(top(up)).toEqual([['a', 90_000, 4], ['t', 50_000, 1]])
    expect(up.ns[0]).toBe(140_000)
  })
  test('of a: from its outermost activation', () => {
    expect(top(callers(KNOWN, nodes, outer, of('a'), sums))).toEqual([['m', 100_000, 5]])
    const down = callees(KNOWN, nodes, outer, of('a'), sums)
    expect(top(down)).toEqual([['b', 90_000, 4]])
    expect(down.ns[0]).toBe(100_000) // 10 us of them its own
  })
  test('of a root', () => {
    expect(top(callers(KNOWN, nodes, outer, of('m'), sums))).toEqual([])
  })
})

test('boxes: the heaviest first, children inside their parent, nothing without time', () => {
  const { nodes, list } = functions(KNOWN)
  const tree = treeOf(KNOWN, nodes)
  const all = weighted(KNOWN, tree, aggregate(KNOWN))
  const shown = (of: typeof all) => {
    const { depth, row, left, width } = layout(of)
    const rows = Array.from({ length: depth }, (_, at) => row(at).nodes)
    return { width, rows: rows.map((row) => [...row].map((node) => [list.list[tree.label[node]!]!.fn.name, left(node), of.ns[node]])) }
  }
  expect(shown(all)).toEqual({
    width: 250_000,
    rows: [
      [['m', 0, 200_000], ['t', 200_000, 50_000]],
      [['a', 0, 100_000], ['c', 100_000, 100_000], ['b', 200_000, 50_000]],
      [['b', 0, 90_000]],
      [['a', 0, 60_000]],
    ],
  })
  expect(shown(weighted(KNOWN, tree, aggregate(KNOWN, { ...EVERYTHING, threads: new Set([1]) })))).toEqual({
    width: 50_000, rows: [[['t', 0, 50_000]], [['b', 0, 50_000]]],
  })
})

test('activity: busy and off-CPU shares of each bin', () => {
  const profile = made([{ stack: 'a', time: 25, weight: 25 }, { stack: 'a', time: 75, weight: 25, flags: 4 }, { stack: 'a', time: 100, weight: 5 }])
  const [busy, offCpu] = activity(profile, profile.threads[0]!, 4)
  expect([...busy!].map((v) => v.toFixed(2))).toEqual(['1.00', '0.00', '0.00', '0.20'])
  expect([...offCpu!].map((v) => v.toFixed(2))).toEqual(['0.00', '0.00', '1.00', '0.00'])
})

describe('source', () => {
  test('bytes to characters', () => {
    expect([0, 1, 3, 4, 8, 99].map((offset) => indexOfByte('aé€😀', offset))).toEqual([0, 1, 2, 3, 5, 5])
  })
  test('the narrowest span colours a piece', () => {
    const [outer, inner] = [{ col: 0, endCol: 9, selfNs: 1, totalNs: 5 }, { col: 4, endCol: 6, selfNs: 2, totalNs: 2 }]
    expect(pieces('f(a, bc)  ', [outer, inner])).toEqual([
      { text: 'f(a,', span: outer }, { text: ' b', span: inner }, { text: 'c) ', span: outer }, { text: ' ', span: null },
    ])
  })
  test('time of lines and spans', () => {
    const profile = made([
      { stack: 'f:3:0-9', time: 1, weight: 1 },
      { stack: 'f:3:4-6 g:7', time: 3, weight: 2 },
      { stack: 'f:3:4-6 g:7 f:3:0-9', time: 7, weight: 4 },
    ])
    const of = (grain: 'place' | 'span') => {
      const list = labels(profile, grain)
      const nodes = nodeLabels(profile, list)
      return [list.list, figures(profile, nodes, outermost(profile.parent, nodes, list.list.length), list.list.length, aggregate(profile))] as const
    }
    const files = sourceLines(...of('place'), ...of('span'))
    expect(files.map(({ file, selfNs }) => [file, selfNs])).toEqual([['/app/f.py', 5000], ['/app/g.py', 2000]])
    const line = files[0]!.lines.get(3)!
    expect([line.selfNs, line.totalNs]).toEqual([5000, 7000])
    expect(line.spans).toEqual([{ col: 0, endCol: 9, selfNs: 5000, totalNs: 5000 }, { col: 4, endCol: 6, selfNs: 0, totalNs: 6000 }])
  })
})

test('lanes: of each thread the first type, and what it has of others; what is counted is in scale with its type', () => {
  const time = made([{ stack: 'a', time: 50, weight: 50 }, { stack: 'a', time: 100, weight: 50, thread: 1 }])
  const some = made([{ stack: 'a', time: 30, weight: 31, thread: 0 }, { stack: 'a', time: 35, weight: 9, thread: 0 }, { stack: 'a', time: 99, weight: 7, thread: 0 }])
  const faults: Profile = { ...some, type: 'page-faults', counts: 'faults', weightUnit: 1, duration: 100, threads: [some.threads[0]!, { ...some.threads[0]!, length: 0 }] }
  const lanes = lanesOf([{ ...time, duration: 100 }, faults], 10)
  expect(lanes.map(({ place, type, first, most }) => [place, type, first, most])).toEqual([[0, 0, true, 1], [0, 1, false, 40], [1, 0, true, 1]])
  expect([...lanes[0]!.parts[0]!]).toEqual([1, 1, 1, 1, 1, 0, 0, 0, 0, 0])
  expect([...lanes[1]!.parts[0]!]).toEqual([0, 0, 0, 40, 0, 0, 0, 0, 0, 7])
})

describe('a page', () => {
  const u32 = (value: number) => [value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24]
  const column = (values: number[], width: number) => [
    ...u32(values.length), width, ...Array.from({ length: width }, (_, plane) => values.map((value) => (value >>> (8 * plane)) & 255)).flat(),
  ]
  const json = {
    format: 1, header: {}, unit: 'nanoseconds', unit_ns: 10_000, start_ns: 1_000_000_000, end: { stop_ns: 1_700_049_000 }, threads: [[4, 77, 'T']], markers: [['gc', 4, 70000, 3, {}]], label_sets: [{}], sources: {}, changed: [], without: {},
    strings: ['f', '/f.py', '\ud800'], functions: [[0, 2, 1, 9, 0]],
    waits: [['a lock', '', 'worker (71)', 1]],
  }
  const page = (about: object, ...more: number[]) => {
    const text = [...new TextEncoder().encode(JSON.stringify(about))]
    return Uint8Array.from([
      ...u32(text.length), ...text,
      ...column([0], 0), ...column([300], 2), ...column([0], 0), ...column([5], 1), ...column([7], 1), ...column([0], 0), ...column([0], 0),
      ...column([1], 1), ...column([0], 0), // nodes
      ...column([1], 1), ...column([1], 1), // stacks
      ...more,
    ])
  }
  const samples = [
    ...column([5, 66000], 3), ...column([0, 131999], 3), ...column([0, 0], 0), ...column([0, 2], 1), ...column([0, 0], 0), ...column([0, 0], 0),
  ]
  const bytes = page(json, ...samples)
  test('is read back', async () => {
    const packed = await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'))).arrayBuffer()
    const types = decode(await unpack(btoa(String.fromCharCode(...new Uint8Array(packed)))))
    expect(types).toHaveLength(1)
    const profile = types[0]!
    expect(profile).toMatchObject({ unit: 10_000, weightUnit: 10_000, type: 'time', counts: '', timed: true, duration: 70005 })
    expect(profile.fns[0]).toEqual({ name: 'f', qualname: '\ud800', file: '/f.py', line: 9, kind: 0 })
    expect([profile.frames.line[0], profile.frames.col[0], profile.frames.endCol[0]]).toEqual([300, 5, 7])
    expect([[...profile.parent], [...profile.frame], [...profile.stacks]]).toEqual([[0, 0, 1, 2], [0, 0, 1, 2], [1]]) // and what was waited for
    expect([[...profile.leaves], [...profile.holders], profile.fns.slice(1).map(({ name }) => name)]).toEqual([[3], [1], ['[a lock]', '[held by worker (71)]']])
    expect(profile.waits[profile.waited[0]! - 1]).toEqual(['a lock', '', 'worker (71)', 1])
    const [thread] = profile.threads
    expect([[...thread!.time], [...thread!.weight], [...thread!.extraTicks!], thread!.flags]).toEqual([[5, 66005], [5, 0], [0, 2], null])
  })
  test('has each type of samples on the same stacks; weights that are no time are as they are', () => {
    const other = { header: { event: 'page-faults' }, stats: { taken: 3 }, losses: [], unit: 'faults', weight_unit: 10 }
    const counted = [...column([100, 80000], 3), ...column([31, 5], 1), ...column([0, 0], 0), ...column([0, 0], 0), ...column([0, 0], 0), ...column([0, 0], 0)]
    const [time, faults, ...rest] = decode(page({ ...json, stats: { taken: 2 }, others: [other] }, ...samples, ...counted))
    expect(rest).toEqual([])
    expect(time).toMatchObject({ type: 'time', counts: '', duration: 80100, about: { stats: { taken: 2 } } })
    expect(faults).toMatchObject({ type: 'page-faults', counts: 'faults', timed: true, unit: 10_000, weightUnit: 10, duration: 80100, about: { stats: { taken: 3 }, start_ns: 1_000_000_000 } })
    expect(faults!.parent).toBe(time!.parent)
    const [thread] = faults!.threads
    expect([[...thread!.time], [...thread!.weight], thread!.name]).toEqual([[100, 80100], [31, 5], 'T'])
    expect(aggregate(faults!)).toMatchObject({ totalNs: 360, totalSamples: 2 })
    expect(aggregate(faults!, { ...EVERYTHING, range: [0, 101] }).totalNs).toBe(310)
  })
  test('another profiler\'s numbers have no times, its times have', () => {
    const timed = (about: object) => decode(page({ ...json, ...about }, ...samples))[0]!.timed
    const counted = { unit: 'samples', weight_unit: 1 }
    expect([timed({ header: { source: 'gecko' } }), timed({ header: { source: 'pprof' } }), timed({ header: { source: 'gecko' }, ...counted }), timed(counted)]).toEqual([true, false, false, true])
  })
  test('that was cut short says so', () => {
    for (const length of [2, 40, bytes.length - 1]) expect(() => decode(bytes.subarray(0, length))).toThrow(/cut short/)
  })
  test('of another format is refused', () => {
    const other = [...new TextEncoder().encode('{"format": 2}')]
    expect(() => decode(Uint8Array.from([...u32(other.length), ...other]))).toThrow('format 2')
  })
})

test('an interval holds whoever\'s the unknown time was, and is none where most is unknown', () => {
  const whole = { totalNs: 1000, effective: 1000, unknownNs: 0 }
  expect(interval(300, whole)).toBe('27.2–32.9 %')
  // The lower end of 200 of 1000, the upper one of 400.
  expect(interval(300, { ...whole, unknownNs: 100 })).toBe('17.6–43.1 %')
  expect(interval(50, { ...whole, unknownNs: 100 })).toBe('0.0–17.3 %')
  expect(interval(300, { ...whole, unknownNs: 501 })).toBe('?')
})

// The same figures as in tests/unit/test_intervals.py.
test('a part of few big samples is as sure as these', () => {
  const whole = { totalNs: 1180, effective: 1180 ** 2 / 11800, unknownNs: 0 }
  expect(samplesOf(280, whole, 100 + 3 * 3600)).toBeCloseTo(39.4272, 4)
  expect(samplesOf(100, whole, 100)).toBeCloseTo(118)
  expect(interval(280, whole, 100 + 3 * 3600)).not.toBe(interval(280, whole))
})

test('a tree of many nodes: each pair of parent and label is one', () => {
  const many = made(Array.from({ length: 3000 }, (_, i) => ({ stack: `m f${i % 1000}:${i} g${i % 10}`, time: i, weight: 1 })))
  const tree = treeOf(many, nodeLabels(many, labels(many, 'function')))
  expect(tree.parent.length).toBe(1 + 1 + 1000 + 1000)
  expect([...tree.sizes]).toEqual([1, 1000, 1000])
  for (let node = 0; node < tree.parent.length; node++) {
    for (let child = tree.first[node]!; child < tree.first[node + 1]!; child++) expect([tree.parent[child], child > node]).toEqual([node, true])
  }
  expect([tree.first[0], tree.first[tree.parent.length]]).toEqual([1, tree.parent.length])
  const found = layout(weighted(many, tree, aggregate(many)))
  const ns = weighted(many, tree, aggregate(many)).ns
  for (let depth = 0; depth < found.depth; depth++) {
    const row = found.row(depth).nodes
    expect([...row].every((node, i) => i === 0 || tree.parent[node] !== tree.parent[row[i - 1]!] || ns[row[i - 1]!]! >= ns[node]!)).toBe(true)
  }
})

describe('what was waited for', () => {
  const [M_A, T_B] = [2, 6] // nodes, in their order below
  const profile = made([
    { stack: 'm a', time: 10, weight: 10 },
    { stack: 'm a', time: 30, weight: 20, wait: ['a lock', '', 'w (71)', T_B] },
    { stack: 'm a b', time: 70, weight: 40, wait: ['input or output', 'pipe', '', 0], label: 1 },
    { stack: 'm a b', time: 72, weight: 2, wait: ['input or output', 'file', '', 0] },
    { stack: 'm a b', time: 77, weight: 5, wait: ['a lock', '', 'w (71)', M_A] }, // it did something else then
    { stack: 't a', time: 3, weight: 3, wait: ['a lock', '', 'v (72)', 0], thread: 1 },
    { stack: 't b', time: 8, weight: 5, thread: 1 },
  ], [{}, { x: '1' }])
  const looked = (filter: object) => {
    const { list, nodes, sums } = functions(profile, aggregate(profile, { ...EVERYTHING, ...filter }))
    const all = weighted(profile, treeOf(profile, nodes), sums)
    const { parent, label } = all.tree
    const path = (node: number): string => (node ? `${path(parent[node]!)} ${list.list[label[node]!]!.fn.name}`.trim() : '')
    const named = Array.from(parent, (_, node) => path(node))
    const reasons = mainReasons(all, profile, sums)
    return {
      reasons: Object.fromEntries(named.map((name, node) => [name, reasons[node]]).filter(([, reason]) => reason)),
      waits: (name: string) => waitsIn(all, profile, sums, named.indexOf(name)).map(({ text, ns }) => [text, ns / 1000]),
    }
  }
  test('a box has the reason for which most of it waited itself', () => {
    expect(looked({}).reasons).toEqual({ 'm a b': 'input or output', 't a': 'a lock' })
    expect(looked({ range: [0, 40] }).reasons).toEqual({ 'm a': 'a lock', 't a': 'a lock' })
    expect(looked({ threads: new Set([1]) }).reasons).toEqual({ 't a': 'a lock' })
  })
  test('all that was waited in it and below, with who held it', () => {
    const { waits } = looked({})
    const [pipe, file, lock] = ['input or output: pipe', 'input or output: file', 'a lock, held by w (71)']
    expect(waits('m')).toEqual([[pipe, 40], [lock, 25], [file, 2]])
    expect(waits('m a b')).toEqual([[pipe, 40], [lock, 5], [file, 2]])
    expect(waits('t')).toEqual([['a lock, held by v (72)', 3]])
    expect(waits('t b')).toEqual([])
    expect(looked({ labels: { x: '1' } }).waits('m')).toEqual([[pipe, 40]])
  })
  test('a filter of a reason, or of what ran', () => {
    const total = (filter: object) => aggregate(profile, { ...EVERYTHING, ...filter }).totalNs / 1000
    expect(['running', 'a lock', 'input or output', 'sleep'].map((reason) => total({ reason }))).toEqual([15, 28, 42, 0])
    expect(total({ reason: 'input or output', labels: { x: '1' } })).toBe(40)
    expect(total({ reason: 'a lock', range: [0, 40] })).toBe(23)
    expect(isEverything({ ...EVERYTHING, reason: 'a lock' })).toBe(false)
  })
  test('the time of each reason', () => {
    const rows = reasonSums(profile, aggregate(profile)).map(({ reason, ns, samples }) => [reason, ns / 1000, samples])
    expect(rows).toEqual([['running', 15, 2], ['a lock', 28, 3], ['input or output', 42, 2]])
  })
  test('what was waited for has boxes below what waited, however stacks are shaped', () => {
    const shown = (of: Profile) => {
      const { list, nodes, sums } = functions(of)
      const { tree, ns } = weighted({ ...of, stacks: of.leaves }, treeOf(of, nodes), sums)
      const path = (node: number): string => (node ? `${path(tree.parent[node]!)} ${list.list[tree.label[node]!]!.fn.name}`.trim() : '')
      return Object.fromEntries([...ns].map((one, node) => [path(node), one / 1000]).filter(([name, one]) => one && String(name).includes('[')))
    }
    expect(shown(profile)).toEqual({
      'm a [a lock]': 20, 'm a [a lock] [held by w (71)]': 20, 'm a b [a lock]': 5, 'm a b [a lock] [held by w (71)]': 5, 'm a b [input or output]': 42,
      'm a b [input or output] [pipe]': 40, 'm a b [input or output] [file]': 2, 't a [a lock]': 3, 't a [a lock] [held by v (72)]': 3,
    })
    const without = { ...profile, ...reshape(profile, Uint8Array.from(profile.fns, ({ name }) => ({ b: Role.Merged, t: Role.Folded })[name] ?? Role.Kept)) }
    expect(shown(without)).toEqual({
      'm a [a lock]': 25, 'm a [a lock] [held by w (71)]': 25, 'm a [input or output]': 42, 'm a [input or output] [pipe]': 40, 'm a [input or output] [file]': 2,
    })
  })
  test('holders by the time others waited for them; and both sides', () => {
    const listed = (filter: object) => holdersOf(profile, { ...EVERYTHING, ...filter }).map(({ text, reason, ns, samples, waiters }) => [text, reason, ns / 1000, samples, waiters])
    const v = ['v (72)', 'a lock', 3, 1, [[1, 3000]]]
    expect(listed({})).toEqual([['w (71)', 'a lock', 25, 2, [[0, 25_000]]], v])
    expect(listed({ threads: new Set([1]) })).toEqual([v])
    expect(listed({ range: [40, 100] })).toEqual([['w (71)', 'a lock', 5, 1, [[0, 5000]]]])
    const { list, nodes, sums } = functions(profile)
    const mine = someSums(sums, (stack) => holderKey(profile, profile.waited[stack]!) === 'a lock w (71)')
    const side = (stacks: Uint32Array) => {
      const { tree, ns } = weighted({ ...profile, stacks }, treeOf(profile, nodes), mine)
      return [...ns].map((one, node) => [node ? list.list[tree.label[node]!]!.fn.name : '', one / 1000]).filter(([, one]) => one)
    }
    expect(side(profile.stacks)).toEqual([['', 25], ['m', 25], ['a', 25], ['b', 5]])
    expect(side(profile.holders)).toEqual([['', 25], ['m', 5], ['t', 20], ['a', 5], ['b', 20]]) // depth by depth
  })
  test('who holds what nobody is known to hold, is in the list, too', () => {
    const some = made([{ stack: 'a', time: 3, weight: 3, wait: ['the GIL', '', '', 0] }, { stack: 'a', time: 5, weight: 2, wait: ['sleep', '', '', 0] }])
    expect(holdersOf(some, EVERYTHING).map(({ text, reason, ns }) => [text, reason, ns])).toEqual([['', 'the GIL', 3000]])
  })
  test('lanes by reason; tasks, of which many wait at a time, are in scale with the most', () => {
    const [running, lock, io] = activity(profile, profile.threads[0]!, 77, 'reason').map((part) => part && [...part].reduce((a, b) => a + b, 0).toFixed(3))
    expect([running, lock, io]).toEqual(['10.000', '25.000', '42.000'])
    const tasks = { ...profile, type: 'tasks', duration: 10, threads: [{ ...profile.threads[0]!, length: 3, time: Uint32Array.of(10, 10, 10), weight: Uint32Array.of(10, 10, 5) }] }
    const [lane] = lanesOf([tasks], 2, 'reason')
    expect([lane!.most, lane!.parts.map((part) => part && [...part])]).toEqual([3, [[1, 1], [1, 1], [0, 1]]])
  })
})

describe('stacks without some functions', () => {
  const shown = (roles: Record<string, Role>) => {
    const profile = { ...KNOWN, ...reshape(KNOWN, Uint8Array.from(KNOWN.fns, ({ name }) => roles[name] ?? Role.Kept)) }
    const { list, nodes } = functions(profile)
    const tree = treeOf(profile, nodes)
    const { ns } = weighted(profile, tree, aggregate(profile))
    const path = (node: number): string => (node ? `${path(tree.parent[node]!)} ${list.list[tree.label[node]!]!.fn.name}`.trim() : '')
    return Object.fromEntries([...ns].map((one, node) => [path(node), one / 1000]).filter(([, one]) => one))
  }
  test('all', () => expect(shown({})).toEqual({ '': 250, m: 200, 'm a': 100, 'm a b': 90, 'm a b a': 60, 'm c': 100, t: 50, 't b': 50 }))
  test('merged: the time of a function is its callers\', and so is what it calls', () => {
    expect(shown({ b: Role.Merged })).toEqual({ '': 250, m: 200, 'm a': 100, 'm a a': 60, 'm c': 100, t: 50 })
    expect(shown({ t: Role.Merged, b: Role.Merged })).toEqual({ '': 250, m: 200, 'm a': 100, 'm a a': 60, 'm c': 100 })
  })
  test('folded: what a function calls is a part of it', () => {
    expect(shown({ b: Role.Folded })).toEqual({ '': 250, m: 200, 'm a': 100, 'm a b': 90, 'm c': 100, t: 50, 't b': 50 })
    expect(shown({ m: Role.Folded, b: Role.Merged })).toEqual({ '': 250, m: 200, t: 50 })
  })
})

describe('call trees', () => {
  const { list, nodes } = functions(KNOWN)
  const all = weighted(KNOWN, treeOf(KNOWN, nodes), aggregate(KNOWN))
  const text = (calls: Call[], deep: number): unknown[] =>
    calls.map(({ label, ns, self, samples, below }) => [list.list[label]!.fn.name, ns / 1000, self / 1000, samples, ...(deep ? text(below(), deep - 1) : [])])
  test('from the roots', () => {
    expect(text(callTree(all), 1)).toEqual([['m', 200, 0, 6, ['a', 100, 10, 5], ['c', 100, 100, 1]], ['t', 50, 0, 1, ['b', 50, 50, 1]]])
  })
  test('inverted: who called what was on top, and for how much of its time', () => {
    expect(text(invertedTree(all), 1)).toEqual([
      ['c', 100, 100, 1, ['m', 100, 100, 1]],
      ['b', 80, 80, 2, ['t', 50, 50, 1], ['a', 30, 30, 1]],
      ['a', 70, 70, 4, ['b', 60, 60, 3], ['m', 10, 10, 1]],
    ])
  })
})
