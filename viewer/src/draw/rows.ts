// What a flame graph draws: boxes in rows, asked for by the part that is visible.
import { after, picks, type Filter } from '../data/aggregate'
import type { Profile, Thread } from '../data/profile'
import type { Layout, Row, Tree, Weighted } from '../data/tree'

export interface Box {
  node: number
  from: number
  to: number
  row?: number // if it is not the node's depth
}

export interface Rows {
  depth: number
  width: number // the boxes lie between 0 and this
  // Calls `emit` for each box of a row that is at least a pixel wide, from left to right, in pixels. Of those that are
  // narrower the first in each pixel stands for all.
  boxes(row: number, from: number, to: number, pixels: number, emit: (node: number, left: number, right: number) => void): void
  at(row: number, x: number): Box | null
  find(node: number): Box | null
  headings?: { row: number; text: string }[] // rows without boxes
}

// The left-heavy order: all samples of a stack side by side.
export function heavyRows({ ns }: Weighted, { depth, row: rowOf, left, width }: Layout): Rows {
  // The first of a row, from `low` on, that begins at `x` or later.
  const beginning = (edges: Float64Array, x: number, low: number): number => {
    let high = edges.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (edges[middle]! < x) low = middle + 1
      else high = middle
    }
    return low
  }
  // The first that ends after `x`.
  const first = ({ nodes, edges }: Row, x: number): number => {
    const i = Math.max(0, beginning(edges, x, 0) - 1)
    return i < nodes.length && edges[i]! + ns[nodes[i]!]! <= x ? i + 1 : i
  }
  const box = (node: number, from: number): Box => ({ node, from, to: from + ns[node]! })
  return {
    depth,
    width,
    boxes(row, from, to, pixels, emit) {
      const here = rowOf(row)
      const { nodes, edges } = here
      const scale = pixels / (to - from)
      let taken = -1 // the last pixel with a box in it
      for (let i = first(here, from); i < nodes.length; i++) {
        const node = nodes[i]!
        const a = (edges[i]! - from) * scale
        if (a >= pixels) return
        const b = a + ns[node]! * scale
        if (b - a < 1) {
          const pixel = a | 0
          if (pixel !== taken) emit(node, pixel, pixel + 1)
          taken = pixel
          // All that begin in the same pixel but the last, which may be wide.
          const end = from + (pixel + 1) / scale
          if (edges[i + 2]! < end) i = beginning(edges, end, i + 2) - 2
        } else {
          taken = Math.round(b) - 1
          emit(node, a, b)
        }
      }
    },
    at(row, x) {
      if (row < 0 || row >= depth) return null
      const { nodes, edges } = rowOf(row)
      const i = first(rowOf(row), x)
      return i < nodes.length && edges[i]! <= x ? box(nodes[i]!, edges[i]!) : null
    },
    find(node) {
      return node > 0 && ns[node]! > 0 ? box(node, left(node)) : null
    },
  }
}

// The order of time: one thread's stacks as they came. Each pixel shows what ran in its middle or, if nothing did, what ran in it first,
// so that it does not matter how many samples there are; from a pixel a sample on it is exact.
export function timeRows(profile: Profile, tree: Tree, thread: Thread, filter: Filter): Rows {
  const wanted = picks(profile, thread, filter)
  const [begin, end] = filter.range ?? [0, profile.duration]
  const depth = deepest(profile, tree, thread, begin, end, wanted)
  let key = ''
  let cells = new Int32Array(0)
  const leafAt = (x: number, orUntil = x): number => {
    const i = after(thread.time, begin + x)
    if (i >= thread.length || thread.time[i]! - thread.weight[i]! > begin + orUntil) return -1
    if (wanted && !wanted(i)) return -1
    return tree.of[profile.stacks[thread.stack[i]!]!]!
  }
  const prepare = (from: number, to: number, pixels: number): void => {
    if (key === (key = `${from} ${to} ${pixels}`)) return
    cells = new Int32Array(depth * pixels).fill(-1)
    for (let pixel = 0; pixel < pixels; pixel++) {
      const at = (part: number) => from + ((pixel + part) * (to - from)) / pixels
      const middle = leafAt(at(0.5))
      for (let node = middle >= 0 ? middle : leafAt(at(0.01), at(0.99)); node > 0; node = tree.parent[node]!) {
        cells[tree.depth[node]! * pixels + pixel] = node
      }
    }
  }
  const above = (node: number, row: number): number => {
    while (node > 0 && tree.depth[node]! > row) node = tree.parent[node]!
    return node > 0 && tree.depth[node] === row ? node : -1
  }
  return {
    depth,
    width: end - begin,
    boxes(row, from, to, pixels, emit) {
      prepare(from, to, pixels)
      for (let left = 0; left < pixels; ) {
        const node = cells[row * pixels + left]!
        let right = left + 1
        while (right < pixels && cells[row * pixels + right] === node) right++
        if (node > 0) emit(node, left, right)
        left = right
      }
    },
    at(row, x) {
      const node = above(leafAt(x), row)
      if (node < 0) return null
      const { time, weight, stack, length } = thread
      const same = (i: number) => i >= 0 && i < length && above(tree.of[profile.stacks[stack[i]!]!]!, row) === node
      let first = after(time, begin + x)
      let last = first
      while (same(first - 1) && time[first - 1]! >= begin && time[first]! - weight[first]! <= time[first - 1]! + 1) first--
      while (same(last + 1) && time[last + 1]! < end && time[last + 1]! - weight[last + 1]! <= time[last]! + 1) last++
      return { node, from: Math.max(0, time[first]! - weight[first]! - begin), to: time[last]! - begin }
    },
    find: () => null, // it may be in many places
  }
}

// How many rows a thread needs in a range.
function deepest(profile: Profile, tree: Tree, thread: Thread, begin: number, end: number, wanted: ReturnType<typeof picks>): number {
  const seen = new Uint8Array(profile.stacks.length)
  const last = Math.min(thread.length - 1, after(thread.time, end))
  for (let i = after(thread.time, begin); i <= last; i++) {
    const inside = thread.time[i]! - thread.weight[i]! < end
    if (inside && (!wanted || wanted(i))) seen[thread.stack[i]!] = 1
  }
  let depth = 0
  for (let i = 0; i < seen.length; i++) if (seen[i]) depth = Math.max(depth, tree.depth[tree.of[profile.stacks[i]!]!]! + 1)
  return depth
}

// The order of time of several threads, one below the other, each under its name; of one thread without it.
export function laneRows(profile: Profile, tree: Tree, threads: Thread[], filter: Filter): Rows {
  const all = threads.map((thread) => ({ name: thread.name, rows: timeRows(profile, tree, thread, filter) }))
  const lanes = all.filter(({ rows }) => rows.depth)
  if (lanes.length === 1) return lanes[0]!.rows
  const [begin, end] = filter.range ?? [0, profile.duration]
  const headings: { row: number; text: string }[] = []
  const first: number[] = [] // the row of each lane's roots
  let depth = 0
  for (const { name, rows } of lanes) {
    headings.push({ row: depth, text: name })
    first.push(depth + 1)
    depth += 1 + rows.depth
  }
  const place = (row: number): [Rows, number] | null => {
    const lane = after(Uint32Array.from(first), row + 1) - 1
    return lane >= 0 && row - first[lane]! < lanes[lane]!.rows.depth ? [lanes[lane]!.rows, row - first[lane]!] : null
  }
  return {
    depth,
    width: end - begin,
    headings,
    boxes(row, from, to, pixels, emit) {
      const at = place(row)
      at?.[0].boxes(at[1], from, to, pixels, emit)
    },
    at(row, x) {
      const at = place(row)
      const box = at?.[0].at(at[1], x)
      return box ? { ...box, row } : null
    },
    find: () => null,
  }
}
