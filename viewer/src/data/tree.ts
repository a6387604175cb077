// Trees of labels: the flame graph's, and those of a function's callers and callees. In all of them a parent's id is less than its
// child's and node 0 is the root, as in the profile's trie of stacks.
import type { Sums } from './aggregate'
import { addUp, ownOfNodes } from './figures'
import type { Profile } from './profile'

export interface Tree {
  parent: Uint32Array
  label: Uint32Array
  depth: Uint16Array // of the root's children 0
  of: Int32Array // node of the profile's trie -> node here; -1: not in this tree
  first: Uint32Array // of each node the first of its children, numbered one after another until those of the next node
  sizes: Uint32Array // of each depth, how many nodes there are
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

  // Numbers the nodes depth by depth and in each the children of one node together: what is drawn is read in this order, and
  // a tree is much larger than the processor's caches. `of` is changed with them.
  tree(of: Int32Array): Tree {
    const n = this.size
    const end = new Uint32Array(n) // of each old node, in `children`
    for (let node = 1; node < n; node++) end[this.parent[node]!]! += 1
    for (let node = 1; node < n; node++) end[node]! += end[node - 1]!
    const children = new Uint32Array(n)
    const begin = end.slice()
    for (let node = n - 1; node > 0; node--) children[--begin[this.parent[node]!]!] = node
    const [parent, label, depth] = [new Uint32Array(n), new Uint32Array(n), new Uint16Array(n)]
    const [first, old, renamed] = [new Uint32Array(n + 1), new Uint32Array(n), new Uint32Array(n)]
    const sizes: number[] = []
    let size = 1
    for (let node = 0; node < n; node++) {
      const was = old[node]!
      first[node] = size
      for (let i = begin[was]!; i < end[was]!; i++) {
        const child = children[i]!
        renamed[child] = size
        old[size] = child
        parent[size] = node
        label[size] = this.label[child]!
        const level = node ? depth[node]! + 1 : 0
        depth[size++] = level
        sizes[level] = (sizes[level] ?? 0) + 1
      }
    }
    first[n] = n
    for (let i = 0; i < of.length; i++) if (of[i]! > 0) of[i] = renamed[of[i]!]!
    return { parent, label, depth, of, first, sizes: Uint32Array.from(sizes) }
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

// `own`: what ends in each node of the tree.
function weigh(tree: Tree, sums: Sums, own: (column: Float64Array) => Float64Array): Weighted {
  let all: Float64Array | undefined // made when first asked for, as boxes are drawn without it
  return {
    tree,
    ns: addUp(tree.parent, own(sums.ns)),
    get samples() {
      return (all ??= addUp(tree.parent, own(sums.samples)))
    },
  }
}

// Of a tree in which each stack that is in it has one node.
export function weighted(profile: Profile, tree: Tree, sums: Sums): Weighted {
  const nodes = nodesOfStacks(profile.stacks, tree)
  return weigh(tree, sums, (column) => {
    const own = new Float64Array(tree.parent.length)
    for (let stack = 0; stack < column.length; stack++) {
      const weight = column[stack]!
      if (weight && nodes[stack]! >= 0) own[nodes[stack]!]! += weight
    }
    return own
  })
}

// -1: not in this tree. Kept as long as the tree is: while a range is dragged it is asked for again and again.
const known = new WeakMap<Tree, { stacks: Uint32Array; nodes: Int32Array }>()

function nodesOfStacks(stacks: Uint32Array, tree: Tree): Int32Array {
  const before = known.get(tree)
  if (before?.stacks === stacks) return before.nodes
  const nodes = Int32Array.from(stacks, (node) => tree.of[node]!)
  known.set(tree, { stacks, nodes })
  return nodes
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
  return weighted(profile, builder.tree(of), sums)
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
  const tree = builder.tree(of)
  return weigh(tree, sums, (column) => {
    const own = new Float64Array(tree.parent.length)
    addUp(parent, ownOfNodes(profile, column)).forEach((weight, node) => {
      if (of[node]! >= 0) own[of[node]!]! += weight
    })
    return own
  })
}

// Where the boxes of a tree lie: of each depth the nodes from left to right, and where each begins, in nanoseconds. A row is
// laid out when it is first asked for: most are below what one sees.
export interface Layout {
  depth: number // of the deepest node, and one
  row: (depth: number) => Row
  left: (node: number) => number // where it begins, if it has a box
  width: number
}

export interface Row {
  nodes: Uint32Array
  edges: Float64Array // where each begins
}

export function layout({ tree, ns }: Weighted): Layout {
  const { first, sizes } = tree
  let last = ns.length - 1 // of those that have time: one of the deepest
  while (last > 0 && !(ns[last]! > 0)) last--
  const rows: Row[] = []
  const row = (wanted: number): Row => {
    while (rows.length <= wanted) {
      const above = rows[rows.length - 1] ?? { nodes: Uint32Array.of(0), edges: Float64Array.of(0) }
      const [nodes, edges] = [new Uint32Array(sizes[rows.length]!), new Float64Array(sizes[rows.length]!)]
      let to = 0
      for (let place = 0; place < above.nodes.length; place++) {
        const node = above.nodes[place]!
        const from = to
        for (let child = first[node]!; child < first[node + 1]!; child++) if (ns[child]! > 0) nodes[to++] = child // no time, no box
        if (to - from > 1) sort(nodes.subarray(from, to), ns)
        for (let i = from, at = above.edges[place]!; i < to; i++) {
          edges[i] = at
          at += ns[nodes[i]!]!
        }
      }
      rows.push({ nodes: nodes.subarray(0, to), edges: edges.subarray(0, to) })
    }
    return rows[wanted]!
  }
  const left = (node: number): number => {
    const { nodes, edges } = row(tree.depth[node]!)
    return edges[nodes.indexOf(node)]!
  }
  return { depth: last > 0 ? tree.depth[last]! + 1 : 0, row, left, width: ns[0]! }
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
