// Trees of labels: the flame graph's, and those of a function's callers and callees. In all of them a parent's id is less than its
// child's and node 0 is the root, as in the profile's trie of stacks.
import type { Sums } from './aggregate'
import { ownOfNodes, totalsOf } from './figures'
import type { Profile } from './profile'

export interface Tree {
  parent: Uint32Array
  label: Uint32Array
  depth: Uint16Array // of the root's children 0
  of: Int32Array // node of the profile's trie -> node here; -1: not in this tree
}

class Builder {
  parent: number[] = [0]
  label: number[] = [0]
  private known = new Map<number, number>()

  child(parent: number, label: number): number {
    const key = parent * 0x200000 + label // 2 ** 21 labels; 2 ** 32 nodes
    let node = this.known.get(key)
    if (node === undefined) {
      this.known.set(key, (node = this.parent.length))
      this.parent.push(parent)
      this.label.push(label)
    }
    return node
  }

  tree(of: Int32Array): Tree {
    const parent = Uint32Array.from(this.parent)
    const depth = new Uint16Array(parent.length)
    for (let node = 1; node < parent.length; node++) depth[node] = parent[node] ? depth[parent[node]!]! + 1 : 0
    return { parent, label: Uint32Array.from(this.label), depth, of }
  }
}

// All stacks.
export function treeOf(profile: Profile, label: Uint32Array): Tree {
  const builder = new Builder()
  const of = new Int32Array(profile.parent.length)
  for (let node = 1; node < of.length; node++) of[node] = builder.child(of[profile.parent[node]!]!, label[node]!)
  return builder.tree(of)
}

export interface Weighted {
  tree: Tree
  ns: Float64Array // of each node with all below it
  samples: Float64Array
}

function weigh(tree: Tree, ns: Float64Array, samples: Float64Array): Weighted {
  const total = (column: Float64Array): Float64Array => {
    const own = new Float64Array(tree.parent.length)
    for (let node = 0; node < column.length; node++) if (tree.of[node]! >= 0) own[tree.of[node]!]! += column[node]!
    return totalsOf(tree.parent, own)
  }
  return { tree, ns: total(ns), samples: total(samples) }
}

export function weighted(profile: Profile, tree: Tree, sums: Sums): Weighted {
  return weigh(tree, ownOfNodes(profile, sums.ns), ownOfNodes(profile, sums.samples))
}

// What a label calls: the stacks below its outermost activations. The root is the label itself.
export function callees(profile: Profile, label: Uint32Array, outer: Uint8Array, wanted: number, sums: Sums): Weighted {
  const builder = new Builder()
  const of = new Int32Array(profile.parent.length).fill(-1)
  for (let node = 1; node < of.length; node++) {
    const above = of[profile.parent[node]!]!
    if (above >= 0) of[node] = builder.child(above, label[node]!)
    else if (outer[node] && label[node] === wanted) of[node] = 0
  }
  return weigh(builder.tree(of), ownOfNodes(profile, sums.ns), ownOfNodes(profile, sums.samples))
}

// Who calls a label: from its outermost activations upwards, each caller below what it calls.
export function callers(profile: Profile, label: Uint32Array, outer: Uint8Array, wanted: number, sums: Sums): Weighted {
  const { parent } = profile
  const builder = new Builder()
  const of = new Int32Array(parent.length).fill(-1)
  for (let node = 1; node < of.length; node++) {
    if (!outer[node] || label[node] !== wanted) continue
    let at = 0
    for (let above = parent[node]!; above; above = parent[above]!) at = builder.child(at, label[above]!)
    of[node] = at
  }
  const all = (column: Float64Array) => totalsOf(parent, ownOfNodes(profile, column))
  return weigh(builder.tree(of), all(sums.ns), all(sums.samples))
}

// Where the boxes of a tree lie: of each depth the nodes from left to right, and where each begins, in nanoseconds.
export interface Layout {
  rows: Uint32Array[]
  left: Float64Array
  width: number
}

export function layout({ tree, ns }: Weighted): Layout {
  const n = tree.parent.length
  // Children of each node, side by side in one array; those without any time have no box.
  const start = new Uint32Array(n + 1)
  for (let node = 1; node < n; node++) if (ns[node]! > 0) start[tree.parent[node]! + 1]!++
  for (let node = 0; node < n; node++) start[node + 1]! += start[node]!
  const place = start.slice(0, n)
  const children = new Uint32Array(start[n]!)
  for (let node = 1; node < n; node++) if (ns[node]! > 0) children[place[tree.parent[node]!]!++] = node
  const heavier = (a: number, b: number) => ns[b]! - ns[a]! || a - b
  const left = new Float64Array(n)
  const rows: Uint32Array[] = []
  let row: Uint32Array = Uint32Array.of(0)
  for (;;) {
    let size = 0
    for (const node of row) size += start[node + 1]! - start[node]!
    if (size === 0) return { rows, left, width: ns[0]! }
    const below = new Uint32Array(size)
    let to = 0
    for (const node of row) {
      const some = children.subarray(start[node]!, start[node + 1]!)
      if (some.length > 1) some.sort(heavier)
      let at = left[node]!
      for (const child of some) {
        left[child] = at
        at += ns[child]!
        below[to++] = child
      }
    }
    rows.push((row = below))
  }
}

// The children of the root, the heaviest first.
export function topLevel({ tree, ns }: Weighted): number[] {
  const result = []
  for (let node = 1; node < tree.parent.length; node++) if (tree.parent[node] === 0 && ns[node]! > 0) result.push(node)
  return result.sort((a, b) => ns[b]! - ns[a]!)
}
