// What was waited for in the boxes of a tree.
import type { Sums } from './aggregate'
import type { Profile } from './profile'
import type { Weighted } from './tree'

export interface Waited {
  text: string // `a lock: /run/app.lock, held by worker (71) in save (store.py:40)`
  ns: number
}

const MOSTLY = 0.5 // of a box

// Of each node the reason for which it mostly waited itself; '' where it mostly ran, or called what waited.
export function mainReasons({ tree, ns }: Weighted, profile: Profile, sums: Sums): string[] {
  const reasons = [...new Set(profile.waits.map(([reason]) => reason))]
  const place = profile.waits.map(([reason]) => reasons.indexOf(reason))
  const own = new Map<number, number>() // of each node and reason
  const result = new Array<string>(tree.parent.length).fill('')
  each(profile, sums, (stack, wait) => {
    const node = tree.of[profile.stacks[stack]!]!
    const key = node * reasons.length + place[wait]!
    const sum = (own.get(key) ?? 0) + sums.ns[stack]!
    own.set(key, sum)
    if (node > 0 && sum >= MOSTLY * ns[node]!) result[node] = reasons[place[wait]!]!
  })
  return result
}

// In a node and all below it, the longest first.
export function waitsIn({ tree }: Weighted, profile: Profile, sums: Sums, node: number): Waited[] {
  const inside = new Uint8Array(tree.parent.length)
  inside[node] = 1
  for (let below = node + 1; below < inside.length; below++) inside[below] = inside[tree.parent[below]!]!
  const ns = new Float64Array(profile.waits.length)
  each(profile, sums, (stack, wait) => {
    const at = tree.of[profile.stacks[stack]!]!
    if (at >= 0 && inside[at]) ns[wait]! += sums.ns[stack]!
  })
  return profile.waits
    .map(([reason, what, holder], wait) => ({ text: reason + (what && `: ${what}`) + (holder && `, held by ${holder}`), ns: ns[wait]! }))
    .filter((one) => one.ns > 0)
    .sort((a, b) => b.ns - a.ns)
}

function each(profile: Profile, sums: Sums, see: (stack: number, wait: number) => void): void {
  const { waited } = profile
  for (let stack = 0; stack < waited.length; stack++) if (waited[stack] && sums.ns[stack]! > 0) see(stack, waited[stack]! - 1)
}
