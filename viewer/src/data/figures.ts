// Self and total figures of labels; the interval of a share.
import type { Sums } from './aggregate'
import type { Profile } from './profile'

export interface Figures {
  selfNs: Float64Array
  totalNs: Float64Array
  selfSamples: Float64Array
  totalSamples: Float64Array
  selfSquares: Float64Array | null // where a sample is big
  totalSquares: Float64Array | null
}

// What ends in each node.
export function ownOfNodes(profile: Profile, column: Float64Array): Float64Array {
  const own = new Float64Array(profile.parent.length)
  for (let stack = 0; stack < column.length; stack++) own[profile.stacks[stack]!]! += column[stack]!
  return own
}

// What ends in each function.
export function selfOfFunctions(profile: Profile, column: Float64Array): Float64Array {
  const { stacks, frame, frames } = profile
  const self = new Float64Array(profile.fns.length)
  for (let stack = 0; stack < column.length; stack++) {
    const weight = column[stack]!
    if (weight && stacks[stack]) self[frames.fn[frame[stacks[stack]!]!]!]! += weight
  }
  return self
}

// What ends in each node or below it.
export function totalsOf(parent: Uint32Array, own: Float64Array): Float64Array {
  return addUp(parent, own.slice())
}

// The same in place.
export function addUp(parent: Uint32Array, own: Float64Array): Float64Array {
  for (let node = own.length - 1; node > 0; node--) {
    const weight = own[node]!
    if (weight) own[parent[node]!]! += weight
  }
  return own
}

// 1 for each node none of whose ancestors has its label: recursion counts once.
export function outermost(parent: Uint32Array, label: Uint32Array, labelCount: number): Uint8Array {
  const n = parent.length
  const [first, next] = [new Uint32Array(n), new Uint32Array(n)]
  for (let node = n - 1; node > 0; node--) {
    next[node] = first[parent[node]!]!
    first[parent[node]!] = node
  }
  const result = new Uint8Array(n)
  const open = new Uint32Array(labelCount)
  let node = first[0]!
  while (node) {
    const here = label[node]!
    if (open[here]!++ === 0) result[node] = 1
    if (first[node]) {
      node = first[node]!
      continue
    }
    while (node) {
      open[label[node]!]!--
      if (next[node]) {
        node = next[node]!
        break
      }
      node = parent[node]!
    }
  }
  return result
}

export function figures(profile: Profile, label: Uint32Array, outer: Uint8Array, labelCount: number, sums: Sums): Figures {
  const pair = (column: Float64Array): [Float64Array, Float64Array] => {
    const [self, total] = [new Float64Array(labelCount), new Float64Array(labelCount)]
    const own = ownOfNodes(profile, column)
    const all = totalsOf(profile.parent, own)
    for (let node = 1; node < own.length; node++) {
      self[label[node]!]! += own[node]!
      if (outer[node]) total[label[node]!]! += all[node]!
    }
    return [self, total]
  }
  const [selfNs, totalNs] = pair(sums.ns)
  const [selfSamples, totalSamples] = pair(sums.samples)
  const [selfSquares, totalSquares] = sums.squares ? pair(sums.squares) : [null, null]
  return { selfNs, totalNs, selfSamples, totalSamples, selfSquares, totalSquares }
}

const Z = 1.959964

// How many samples a part rests on, if it has squares of its own (Whole.samples_of in intervals.py).
export function samplesOf(part: number, { totalNs, effective }: Pick<Sums, 'totalNs' | 'effective'>, squares: number): number {
  const p = totalNs > 0 ? part / totalNs : 0
  if (squares <= 0 || p <= 0 || p >= 1 || effective <= 0) return effective
  const rest = Math.max(totalNs ** 2 / effective - squares, 0)
  return Math.min(effective, (p * (1 - p) * totalNs ** 2) / ((1 - p) ** 2 * squares + p ** 2 * rest))
}

// The Wilson score interval (95 %) of a share p of n samples.
export function wilson(p: number, n: number): [number, number] {
  if (n <= 0) return [0, 1]
  const spread = (Z * Z) / n
  const middle = (p + spread / 2) / (1 + spread)
  const half = (Z * Math.sqrt((p * (1 - p)) / n + spread / (4 * n))) / (1 + spread)
  return [Math.max(0, Math.min(p, middle - half)), Math.min(1, Math.max(p, middle + half))] // rounding must not leave p outside
}
