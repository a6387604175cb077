// What was waited for: in the boxes of a tree, as boxes of its own, and who held it.
import { after, type Filter, picks, type Sums } from './aggregate'
import { Kind, reasonsOf, type Fn, type Profile, type Thread } from './profile'
import type { Weighted } from './tree'

export interface Waited {
  text: string // `a lock: /run/app.lock, held by worker (71) in save (store.py:40)`
  ns: number
}

const MOSTLY = 0.5 // of a box

// Profiles, which share their stacks, with two more ends of each stack: `leaves` has a node of the reason below it, and below that
// one of what was waited for and its holder; `holders` is what the holder did meanwhile, node 0 if that is not known.
export function withWaits(types: Profile[]): Profile[] {
  const [{ waits, waited, stacks, parent, frame, fns, frames }] = types as [Profile]
  const [above, made, more]: [number[], number[], Fn[]] = [[], [], []]
  const ids = new Map<string, number>()
  const id = <T>(key: string, list: T[], one: () => T, first: number): number => {
    if (!ids.has(key)) ids.set(key, first + list.push(one()) - 1)
    return ids.get(key)!
  }
  const fn = (reason: string, text: string) =>
    id(`f ${reason} ${text}`, more, () => ({ name: `[${text}]`, qualname: `[${text}]`, file: '', line: 0, kind: Kind.Mark, reason }), 0)
  const child = (node: number, reason: string, text: string): number => {
    const of = fn(reason, text)
    return id(`n ${node} ${of}`, above, () => (made.push(frames.fn.length + of), node), parent.length)
  }
  const leaves = stacks.map((leaf, stack) => {
    if (!waited[stack]) return leaf
    const [reason, what, holder] = waits[waited[stack]! - 1]!
    const node = child(leaf, reason, reason)
    return what || holder ? child(node, reason, [what, holder && `held by ${holder}`].filter(Boolean).join(', ')) : node
  })
  const joined = (old: Uint32Array, some: ArrayLike<number>) => {
    const result = new Uint32Array(old.length + some.length)
    result.set(old)
    result.set(some, old.length)
    return result
  }
  const zeros = new Uint32Array(more.length)
  const longer = Object.fromEntries(Object.entries(frames).map(([key, column]: [string, Uint32Array]) => [key, joined(column, zeros)]))
  const shared = {
    leaves,
    holders: waited.map((wait) => (wait ? waits[wait - 1]![3] : 0)),
    parent: joined(parent, above),
    frame: joined(frame, made),
    fns: [...fns, ...more],
    frames: { ...longer, fn: joined(frames.fn, more.map((_, i) => fns.length + i)) } as Profile['frames'],
  }
  return types.map((type) => ({ ...type, ...shared }))
}

// Of each node the reason for which it mostly waited itself; '' where it mostly ran, or called what waited.
export function mainReasons({ tree, ns }: Weighted, profile: Profile, sums: Sums): string[] {
  if (!profile.waits.length) return []
  const { names, of } = reasonsOf(profile)
  const own = new Map<number, number>() // of each node and reason
  const result = new Array<string>(tree.parent.length).fill('')
  each(profile, sums, (stack, wait) => {
    const node = tree.of[profile.stacks[stack]!]!
    const key = node * names.length + of[wait]!
    const sum = (own.get(key) ?? 0) + sums.ns[stack]!
    own.set(key, sum)
    if (node > 0 && sum >= MOSTLY * ns[node]!) result[node] = names[of[wait]!]!
  })
  return result
}

// In a node and all below it, the longest first.
export function waitsIn({ tree }: Weighted, profile: Profile, sums: Sums, node: number): Waited[] {
  const inside = new Uint8Array(tree.parent.length)
  inside[node] = 1
  for (let below = node + 1; below < inside.length; below++) inside[below] = inside[tree.parent[below]!]!
  const found = new Map<string, number>()
  each(profile, sums, (stack, wait) => {
    const at = tree.of[profile.leaves[stack]!]!
    if (at < 0 || !inside[at]) return
    const [reason, what, holder] = profile.waits[wait - 1]!
    const text = reason + (what && `: ${what}`) + (holder && `, held by ${holder}`)
    found.set(text, (found.get(text) ?? 0) + sums.ns[stack]!)
  })
  return [...found].map(([text, ns]) => ({ text, ns })).sort((a, b) => b.ns - a.ns)
}

function each(profile: Profile, sums: Sums, see: (stack: number, wait: number) => void): void {
  const { waited } = profile
  for (let stack = 0; stack < waited.length; stack++) if (waited[stack] && sums.ns[stack]! > 0) see(stack, waited[stack]!)
}

export interface ReasonSum {
  reason: string
  ns: number
  samples: number
}

// What is looked at of each of `reasonsOf`.
export function reasonSums(profile: Profile, sums: Sums): ReasonSum[] {
  const { names, of } = reasonsOf(profile)
  const rows = names.map((reason) => ({ reason, ns: 0, samples: 0 }))
  profile.waited.forEach((wait, stack) => {
    const row = rows[of[wait]!]!
    row.ns += sums.ns[stack]!
    row.samples += sums.samples[stack]!
  })
  return rows
}

// Those of the stacks for which `wanted` is true.
export function someSums(sums: Sums, wanted: (stack: number) => boolean): Sums {
  const some = (column: Float64Array) => column.map((value, stack) => (wanted(stack) ? value : 0))
  return { ...sums, ns: some(sums.ns), samples: some(sums.samples), squares: sums.squares && some(sums.squares) }
}

export interface Holder {
  key: string // of holderKey
  text: string // the thread and its function; '': nobody knows, or nobody
  reason: string
  ns: number // that threads waited for it
  samples: number
  waiters: [thread: number, ns: number][] // places of threads, the longest first
}

// Reasons for which a thread waits because another one holds something.
const HELD = ['the GIL', 'a lock']

// What a wait is charged to; null: no thread could hold it.
export function holderKey({ waits }: Pick<Profile, 'waits'>, wait: number): string | null {
  if (!wait) return null
  const [reason, , text] = waits[wait - 1]!
  return text || HELD.includes(reason) ? `${reason} ${text}` : null
}

// Who held what others waited for, by the time they waited.
export function holdersOf(profile: Profile, filter: Filter): Holder[] {
  const keys = [null, ...profile.waits.map((_, i) => holderKey(profile, i + 1))]
  const found = new Map<string, Holder>()
  profile.threads.forEach((thread, place) => {
    if (filter.threads !== null && !filter.threads.has(place)) return
    const mine = new Map<Holder, number>()
    eachOf(profile, thread, filter, (i) => {
      const wait = profile.waited[thread.stack[i]!]!
      const key = keys[wait]!
      if (key === null) return
      const [reason, , text] = profile.waits[wait - 1]!
      const holder = found.get(key) ?? { key, text, reason, ns: 0, samples: 0, waiters: [] }
      found.set(key, holder)
      holder.samples += 1 + (thread.extraTicks ? thread.extraTicks[i]! : 0)
      mine.set(holder, (mine.get(holder) ?? 0) + thread.weight[i]! * profile.weightUnit)
    })
    for (const [holder, ns] of mine) {
      holder.ns += ns
      holder.waiters.push([place, ns])
    }
  })
  for (const { waiters } of found.values()) waiters.sort((a, b) => b[1] - a[1])
  return [...found.values()].sort((a, b) => b.ns - a.ns)
}

function eachOf(profile: Profile, thread: Thread, filter: Filter, see: (sample: number) => void): void {
  const wanted = picks(profile, thread, filter)
  const [from, to] = filter.range ? filter.range.map((edge) => after(thread.time, edge)) : [0, thread.length]
  for (let i = from!; i < to!; i++) if (!wanted || wanted(i)) see(i)
}
