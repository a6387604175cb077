// The call tree as rows that are opened one by one: from the roots down, or inverted, from where time was spent up to the callers.
// What a row calls is computed when it is opened, so it does not matter how many stacks there are.
import type { Weighted } from './tree'

export interface Call {
  label: number
  ns: number // with all below it
  self: number // of an inverted tree the same as `ns`
  samples: number
  below: () => Call[] // the heaviest first
}

const heaviest = (calls: Call[]): Call[] => calls.sort((a, b) => b.ns - a.ns || a.label - b.label)

function less(parent: Uint32Array, totals: Float64Array): Float64Array {
  const own = totals.slice()
  for (let node = 1; node < own.length; node++) own[parent[node]!]! -= totals[node]!
  return own
}

export function callTree({ tree, ns, samples }: Weighted): Call[] {
  const { parent, label } = tree
  const own = less(parent, ns)
  const [first, next] = [new Uint32Array(parent.length), new Uint32Array(parent.length)]
  for (let node = parent.length - 1; node > 0; node--) {
    if (!(ns[node]! > 0)) continue
    next[node] = first[parent[node]!]!
    first[parent[node]!] = node
  }
  const below = (node: number): Call[] => {
    const calls: Call[] = []
    for (let child = first[node]!; child; child = next[child]!) {
      const here = child
      calls.push({ label: label[here]!, ns: ns[here]!, self: Math.max(0, own[here]!), samples: samples[here]!, below: () => below(here) })
    }
    return heaviest(calls)
  }
  return below(0)
}

export function invertedTree({ tree, ns, samples }: Weighted): Call[] {
  const { parent, label } = tree
  const [own, ownSamples] = [less(parent, ns), less(parent, samples)]
  // `at`: how far up each stack is, `leaf`: where it ends.
  const grouped = (at: number[], leaf: number[]): Call[] => {
    const groups = new Map<number, { call: Call; at: number[]; leaf: number[] }>()
    at.forEach((node, i) => {
      if (!node) return // called by nobody
      let group = groups.get(label[node]!)
      if (!group) {
        const made: { call: Call; at: number[]; leaf: number[] } = { call: { label: label[node]!, ns: 0, self: 0, samples: 0, below: () => [] }, at: [], leaf: [] }
        made.call.below = () => grouped(made.at, made.leaf)
        groups.set(label[node]!, (group = made))
      }
      group.call.ns += own[leaf[i]!]!
      group.call.samples += ownSamples[leaf[i]!]!
      group.at.push(parent[node]!)
      group.leaf.push(leaf[i]!)
    })
    const calls = [...groups.values()].map(({ call }) => call)
    for (const call of calls) call.self = call.ns
    return heaviest(calls)
  }
  const leaves: number[] = []
  for (let node = 1; node < own.length; node++) if (own[node]! > 0.5) leaves.push(node)
  return grouped(leaves, leaves)
}
