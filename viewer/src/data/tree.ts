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

// Nodes by parent and label, in a hash table of node numbers: a Map takes ten times as long for a million.
class Builder {
  private parent: Uint32Array<ArrayBuffer>
  private label: Uint32Array<ArrayBuffer>
  private table: Uint32Array<ArrayBuffer>
  private size = 1

  constructor(expected = 1024) {
    const room = 2 ** Math.ceil(Math.log2(Math.max(2, expected)))
    ;[this.parent, this.label, this.table] = [new Uint32Array(room), new Uint32Array(room), new Uint32Array(2 * room)]
  }

  child(parent: number, label: number): number {
    const mask = this.table.length - 1
    let slot = slotOf(parent, label) & mask
    for (let node; (node = this.table[slot]!); slot = (slot + 1) & mask) if (this.parent[node] === parent && this.label[node] === label) return node
    const node = this.size++
    this.parent[node] = parent
    this.label[node] = label
    this.table[slot] = node
    if (this.size === this.parent.length) this.grow()
    return node
  }

  private grow(): void {
    const wider = (old: Uint32Array) => {
      const result = new Uint32Array(2 * old.length)
      result.set(old)
      return result
    }
    ;[this.parent, this.label, this.table] = [wider(this.parent), wider(this.label), new Uint32Array(2 * this.table.length)]
    const mask = this.table.length - 1
    for (let node = 1; node < this.size; node++) {
      let slot = slotOf(this.parent[node]!, this.label[node]!) & mask
      while (this.table[slot]) slot = (slot + 1) & mask
      this.table[slot] = node
    }
  }

  tree(of: Int32Array): Tree {
    const [parent, label] = [this.parent.slice(0, this.size), this.label.slice(0, this.size)]
    const depth = new Uint16Array(this.size)
    for (let node = 1; node < this.size; node++) depth[node] = parent[node] ? depth[parent[node]!]! + 1 : 0
    return { parent, label, depth, of }
  }
}

function slotOf(parent: number, label: number): number {
  const mixed = Math.imul(Math.imul(parent, 0x9e3779b1) ^ label, 0x85ebca6b)
  return mixed ^ (mixed >>> 15)
}

// All stacks.
export function treeOf(profile: Profile, label: Uint32Array): Tree {
  const builder = new Builder(profile.parent.length)
  const of = new Int32Array(profile.parent.length)
  for (let node = 1; node < of.length; node++) of[node] = builder.child(of[profile.parent[node]!]!, label[node]!)
  return builder.tree(of)
}

export interface Weighted {
  tree: Tree
  ns: Float64Array // of each node with all below it
  readonly samples: Float64Array
}

function weigh(tree: Tree, ns: Float64Array, samples: Float64Array): Weighted {
  const total = (column: Float64Array): Float64Array => {
    const own = new Float64Array(tree.parent.length)
    for (let node = 0; node < column.length; node++) if (tree.of[node]! >= 0) own[tree.of[node]!]! += column[node]!
    return totalsOf(tree.parent, own)
  }
  let all: Float64Array | undefined // made when first asked for, as boxes are drawn without it
  return {
    tree,
    ns: total(ns),
    get samples() {
      return (all ??= total(samples))
    },
  }
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

// Where the boxes of a tree lie: of each depth the nodes from left to right, and where each begins, in nanoseconds. A row is
// laid out when it is first asked for: most are below what one sees.
export interface Layout {
  depth: number // of the deepest node, and one
  row: (depth: number) => Row
  left: Float64Array // of each node that was laid out
  width: number
}

export interface Row {
  nodes: Uint32Array
  edges: Float64Array // where each begins
}

export function layout({ tree, ns }: Weighted): Layout {
  const n = tree.parent.length
  const [first, next, left] = [new Uint32Array(n), new Uint32Array(n), new Float64Array(n)]
  const sizes: number[] = []
  for (let node = n - 1; node > 0; node--) {
    if (!(ns[node]! > 0)) continue // no time, no box
    next[node] = first[tree.parent[node]!]!
    first[tree.parent[node]!] = node
    sizes[tree.depth[node]!] = (sizes[tree.depth[node]!] ?? 0) + 1
  }
  const rows: Row[] = []
  const row = (depth: number): Row => {
    while (rows.length <= depth) {
      const [size, above] = [sizes[rows.length]!, rows[rows.length - 1]?.nodes ?? Uint32Array.of(0)]
      const [nodes, edges] = [new Uint32Array(size), new Float64Array(size)]
      let to = 0
      for (const node of above) {
        const from = to
        for (let child = first[node]!; child; child = next[child]!) nodes[to++] = child
        if (to - from > 1) sort(nodes.subarray(from, to), ns)
        for (let i = from, at = left[node]!; i < to; i++) {
          const child = nodes[i]!
          left[child] = edges[i] = at
          at += ns[child]!
        }
      }
      rows.push({ nodes, edges })
    }
    return rows[depth]!
  }
  return { depth: sizes.length, row, left, width: ns[0]! }
}

// The heaviest first; of equal ones the one with the lesser number, as `some` begins in their order.
function sort(some: Uint32Array, ns: Float64Array): void {
  if (some.length > FEW) sortRoughly(some, ns)
  for (let i = 1; i < some.length; i++) {
    const node = some[i]!
    const weight = ns[node]!
    let to = i
    for (; to > 0; to--) {
      const before = some[to - 1]!
      if (ns[before]! > weight || (ns[before]! === weight && before < node)) break
      some[to] = before
    }
    some[to] = node
  }
}

const FEW = 16
const PLACES = 2 ** 21 // more than any call has children

// Many children: numbers are sorted much faster than nodes by a function that compares two, so weight (in 2 ** 31 steps) and place
// become one number.
function sortRoughly(some: Uint32Array, ns: Float64Array): void {
  let most = 0
  for (const node of some) most = Math.max(most, ns[node]!)
  const keys = Float64Array.from(some, (node, i) => (2 ** 31 - Math.floor((ns[node]! / most) * 2 ** 31)) * PLACES + i)
  const old = some.slice()
  keys.sort().forEach((key, i) => (some[i] = old[key % PLACES]!))
}

// The children of the root, the heaviest first.
export function topLevel({ tree, ns }: Weighted): number[] {
  const result = []
  for (let node = 1; node < tree.parent.length; node++) if (tree.parent[node] === 0 && ns[node]! > 0) result.push(node)
  return result.sort((a, b) => ns[b]! - ns[a]!)
}
