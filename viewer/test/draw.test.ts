import { describe, expect, test } from 'vitest'
import { aggregate, EVERYTHING, threadTotals } from '../src/data/aggregate'
import { selfOfFunctions } from '../src/data/figures'
import { labels, nodeLabels } from '../src/data/labels'
import { layout, treeOf, weighted } from '../src/data/tree'
import { byFunction, faded, legend, oklch, packages } from '../src/draw/colour'
import { heavyRows, laneRows, timeRows, type Rows } from '../src/draw/rows'
import { interval, percent, time } from '../src/format'
import { made } from './made'

const KNOWN = made([
  { stack: 'm a', time: 10, weight: 10 },
  { stack: 'm b', time: 20, weight: 10 },
  { stack: 'm b', time: 30, weight: 10, label: 1 },
  { stack: 'm a', time: 100, weight: 40 }, // nothing from 30 to 60
], [{}, { k: 'v' }])
const list = labels(KNOWN, 'function')
const tree = treeOf(KNOWN, nodeLabels(KNOWN, list))

function drawn(rows: Rows, row: number, from: number, to: number, pixels: number) {
  const boxes: [string, number, number][] = []
  rows.boxes(row, from, to, pixels, (node, left, right) => boxes.push([list.list[tree.label[node]!]!.fn.name, left, right]))
  return boxes
}

describe('left-heavy', () => {
  const all = weighted(KNOWN, tree, aggregate(KNOWN))
  const rows = heavyRows(all, layout(all))
  test('boxes of a row, whole and zoomed', () => {
    expect(drawn(rows, 1, 0, 70_000, 70)).toEqual([['a', 0, 50], ['b', 50, 70]])
    expect(drawn(rows, 1, 45_000, 55_000, 100)).toEqual([['a', -450, 50], ['b', 50, 250]])
  })
  test('what is under a point', () => {
    expect(rows.at(1, 49_999)).toMatchObject({ from: 0, to: 50_000 })
    expect(rows.at(1, 50_000)).toMatchObject({ from: 50_000, to: 70_000 })
    expect([rows.at(1, 70_001), rows.at(2, 0), rows.find(0)]).toEqual([null, null, null])
  })
  test('boxes below a pixel: one for each pixel', () => {
    const many = made(Array.from({ length: 1000 }, (_, i) => ({ stack: `m f${i}`, time: i, weight: 1 })))
    const bush = treeOf(many, nodeLabels(many, labels(many, 'function')))
    const some = weighted(many, bush, aggregate(many))
    const seen: number[] = []
    heavyRows(some, layout(some)).boxes(1, 0, 1_000_000, 10, (_, left) => seen.push(left))
    expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })
})

test('left-heavy: whatever the zoom, each box that is wide enough is drawn, and no pixel twice', () => {
  let seed = 1
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n
  const many = made(Array.from({ length: 3000 }, (_, i) => ({ stack: `m f${random(300)} g${random(9)}`, time: i, weight: 1 + random(random(20) ? 3 : 3000) })))
  const bush = treeOf(many, nodeLabels(many, labels(many, 'function')))
  const some = weighted(many, bush, aggregate(many))
  const { row, left } = layout(some)
  const rows = heavyRows(some, layout(some))
  for (const [from, to] of [[0, rows.width], [rows.width / 3, rows.width / 2], [rows.width * 0.97, rows.width]] as const) {
    for (let depth = 0; depth < 3; depth++) {
      const drawn: number[] = []
      rows.boxes(depth, from, to, 400, (node) => drawn.push(node))
      const scale = 400 / (to - from)
      const wide = [...row(depth).nodes].filter((node) => some.ns[node]! * scale >= 1 && left(node) < to && left(node) + some.ns[node]! > from)
      expect(drawn).toEqual(expect.arrayContaining(wide))
      expect(new Set(drawn).size).toBe(drawn.length)
    }
  }
})

describe('by time', () => {
  const rows = timeRows(KNOWN, tree, KNOWN.threads[0]!, EVERYTHING)
  test('runs of a stack are one box; where nothing ran is nothing', () => {
    expect(drawn(rows, 1, 0, 100, 10)).toEqual([['a', 0, 1], ['b', 1, 3], ['a', 6, 10]])
    expect(drawn(rows, 0, 0, 100, 10)).toEqual([['m', 0, 3], ['m', 6, 10]])
  })
  test('a moment in a pixel where nothing else ran is seen', () => {
    const profile = made([{ stack: 'm', time: 13, weight: 1 }, { stack: 'm', time: 100, weight: 1 }])
    const moment = timeRows(profile, treeOf(profile, nodeLabels(profile, labels(profile, 'function'))), profile.threads[0]!, EVERYTHING)
    const seen: number[][] = []
    moment.boxes(0, 0, 100, 10, (_, left, right) => seen.push([left, right]))
    expect(seen).toEqual([[1, 2], [9, 10]])
  })
  test('what is under a point, with its extent', () => {
    expect(rows.at(1, 15)).toMatchObject({ from: 10, to: 30 })
    expect(rows.at(0, 45)).toBeNull()
  })
  test('a range begins at 0, a label hides the rest', () => {
    const part = timeRows(KNOWN, tree, KNOWN.threads[0]!, { ...EVERYTHING, range: [20, 100] })
    expect([part.width, drawn(part, 1, 0, 80, 8)]).toEqual([80, [['b', 0, 1], ['a', 4, 8]]])
    expect(drawn(timeRows(KNOWN, tree, KNOWN.threads[0]!, { ...EVERYTHING, labels: { k: 'v' } }), 1, 0, 100, 10)).toEqual([['b', 2, 3]])
  })
})

describe('by time, several threads', () => {
  const two = made([
    { stack: 'm a b', time: 10, weight: 10 },
    { stack: 'm a', time: 20, weight: 10 },
    { stack: 'x', time: 15, weight: 5, thread: 1 },
    { stack: 'm', time: 40, weight: 20, thread: 2 },
  ])
  const names = labels(two, 'function')
  const all = treeOf(two, nodeLabels(two, names))
  const rows = laneRows(two, all, two.threads, EVERYTHING)
  const nameOf = (node: number) => names.list[all.label[node]!]!.fn.name
  const boxes = (row: number, some = rows) => {
    const seen: [string, number, number][] = []
    some.boxes(row, 0, 40, 8, (node, left, right) => seen.push([nameOf(node), left, right]))
    return seen
  }
  test('each has its name and as many rows as it needs', () => {
    expect(rows.headings).toEqual([{ row: 0, text: 'thread 0' }, { row: 4, text: 'thread 1' }, { row: 6, text: 'thread 2' }])
    expect([rows.depth, rows.width]).toEqual([8, 40])
    expect([0, 1, 2, 3, 4, 5, 6, 7].map((row) => boxes(row))).toEqual([
      [], [['m', 0, 4]], [['a', 0, 4]], [['b', 0, 2]], [], [['x', 2, 3]], [], [['m', 4, 8]],
    ])
  })
  test('what is under a point knows its row', () => {
    expect(rows.at(7, 30)).toMatchObject({ from: 20, to: 40, row: 7 })
    expect(nameOf(rows.at(3, 5)!.node)).toBe('b')
    expect([rows.at(0, 5), rows.at(4, 12), rows.at(3, 15), rows.at(8, 30)]).toEqual([null, null, null, null])
  })
  test('in a range no more rows than are needed there, and no thread that does nothing', () => {
    const part = laneRows(two, all, two.threads, { ...EVERYTHING, range: [12, 16] })
    expect([part.headings, part.depth]).toEqual([[{ row: 0, text: 'thread 0' }, { row: 3, text: 'thread 1' }], 5])
    expect(laneRows(two, all, two.threads, { ...EVERYTHING, range: [30, 40] }).headings).toBeUndefined()
  })
  test('one thread needs no name', () => {
    const alone = laneRows(two, all, [two.threads[2]!], EVERYTHING)
    expect([alone.headings, alone.depth, boxes(0, alone)]).toEqual([undefined, 1, [['m', 4, 8]]])
  })
})

describe('colours', () => {
  test('oklch', () => {
    expect(oklch(1, 0, 0)).toEqual([255, 255, 255])
    expect(oklch(0, 0, 0)).toEqual([0, 0, 0])
    expect(oklch(0.627955, 0.257683, 29.2339)).toEqual([255, 0, 0]) // sRGB's red
  })
  test('packages', () => {
    const at = (file: string, kind = 0) => ({ name: 'f', qualname: 'f', file, line: 1, kind })
    const files = [
      '/v/lib/python3.11/site-packages/numpy/core/x.py', '/usr/lib/python3.11/json/decoder.py', '<frozen importlib._bootstrap>',
      '/home/me/app/main.py', '/home/me/app/db/query.py', '<string>', 'C:\\v\\Lib\\site-packages\\six.py',
    ]
    const fns = [...files.map((file) => at(file)), at('/v/lib/python3.11/site-packages/lxml/etree.so', 1), at('/lib/libz.so.1', 1), at('', 1), { ...at('', 2), qualname: '[truncated]' }]
    expect(packages({ ...KNOWN, fns })).toEqual([
      'numpy', 'standard library', 'standard library', 'main.py', 'db', '<string>', 'six', 'lxml', 'libz.so.1', 'native, unknown', '[truncated]',
    ])
  })
  test('a search fades what does not match', () => {
    const result = faded(Uint32Array.of(0xff000000, 0xff0000ff), Uint8Array.of(1, 0), 0xffffffff)
    expect(result[0]).toBe(0xff000000)
    expect(result[1]!.toString(16)).toBe('ffc7c7ff')
  })
})

test('numbers', () => {
  expect([0, 900, 99_900, 250_000, 1_500_000, 2_345_000_000, 90e9].map(time)).toEqual(['0 µs', '0.9 µs', '99.9 µs', '250 µs', '1.50 ms', '2.35 s', '1.5 min'])
  expect([0, 0.0123, 0.5, 1].map(percent)).toEqual(['0.0 %', '1.23 %', '50.0 %', '100.0 %'])
  expect(interval(50, { totalNs: 100, effective: 100, unknownNs: 0 })).toBe('40.4–59.6 %')
})

test('everything is looked at unless something was chosen', () => expect(aggregate(KNOWN, EVERYTHING).totalNs).toBe(70_000))

test('the legend has the figures of the view, in the colours of the whole', () => {
  const two = made([
    { stack: 'm a', time: 10, weight: 10 },
    { stack: 'm b', time: 40, weight: 30 },
    { stack: 'm b', time: 20, weight: 5, thread: 1 },
  ])
  const functions = labels(two, 'function')
  const all = selfOfFunctions(two, aggregate(two).ns)
  expect([...all].sort((a, b) => a - b)).toEqual([0, 10_000, 35_000])
  const colours = byFunction(two, 'package', all, treeOf(two, nodeLabels(two, functions)), functions, false)
  const whole = legend(colours, all)
  expect(whole.map(({ name, ns }) => [name, ns])).toEqual([['b.py', 35_000], ['a.py', 10_000]])
  const part = legend(colours, selfOfFunctions(two, aggregate(two, { ...EVERYTHING, range: [0, 20] }).ns))
  expect(part).toEqual([{ ...whole[1], ns: 10_000 }])
  expect([...threadTotals(two, { ...EVERYTHING, range: [15, 41] })]).toEqual([30_000, 5_000])
})
