// Which samples are looked at, and what each stack adds up to in them.
import { isUnknown, OFF_CPU, reasonsOf, type Profile, type Thread } from './profile'

export interface Filter {
  threads: ReadonlySet<number> | null // places in profile.threads; null: all
  range: readonly [number, number] | null // units; samples taken from the first until before the second
  labels: Readonly<Record<string, string>>
  cpu: 'on' | 'off' | null // only samples of threads that ran, or that waited
  reason: string | null // only samples that waited for this, or that ran
}

export const EVERYTHING: Filter = { threads: null, range: null, labels: {}, cpu: null, reason: null }

export const isEverything = ({ threads, range, labels, cpu, reason }: Filter): boolean =>
  threads === null && range === null && cpu === null && reason === null && Object.keys(labels).length === 0

// Of each stack, and of all: nanoseconds (or what the profile counts), and ticks.
export interface Sums {
  ns: Float64Array
  readonly samples: Float64Array
  readonly squares: Float64Array | null // sums of weight^2 / ticks in ns^2, where a sample is big (BIG in intervals.py)
  totalNs: number
  totalSamples: number
  effective: number // how many samples of one weight would say as much, for intervals: (sum w)^2 / sum w^2 / ticks (intervals.py)
  unknownNs: number // of totalNs: sampled at no random instant, so that nobody knows whose time it was (intervals.py)
}

// What the interval of a share comes from.
export type Whole = Pick<Sums, 'totalNs' | 'effective' | 'unknownNs'>

// Only weights are added up at once: the others are made when first asked for, as boxes are drawn without them.
export function aggregate(profile: Profile, filter: Filter = EVERYTHING): Sums {
  const n = profile.stacks.length
  const parts = profile.threads
    .filter((_, place) => filter.threads === null || filter.threads.has(place))
    .map((thread) => partOf(profile, thread, filter))
  const ns = new Float64Array(n)
  const whole = { most: 0, ticks: 0, squares: 0, unknown: 0 }
  for (const part of parts) {
    addWeights(part, ns, whole)
    whole.unknown += unknownOf(part)
  }
  let totalNs = 0
  for (let i = 0; i < n; i++) totalNs += ns[i]! *= profile.weightUnit
  const column = (add: (part: Part, into: Float64Array) => void): (() => Float64Array) => {
    let made: Float64Array | undefined
    return () => {
      if (!made) {
        made = new Float64Array(n)
        for (const part of parts) add(part, made)
      }
      return made
    }
  }
  const samples = column(addTicks)
  const squares = column((part, into) => addSquares(part, profile.weightUnit ** 2, into))
  const big = whole.most * profile.weightUnit * whole.ticks > BIG * totalNs
  return {
    ns,
    get samples() {
      return samples()
    },
    get squares() {
      return big ? squares() : null
    },
    totalNs,
    totalSamples: whole.ticks,
    effective: whole.squares ? totalNs ** 2 / (whole.squares * profile.weightUnit ** 2) : 0,
    unknownNs: whole.unknown * profile.weightUnit,
  }
}

const BIG = 2

// The samples of a thread that are looked at: those of these places that are wanted.
interface Part {
  thread: Thread
  from: number
  to: number
  wanted: Wanted
}

function partOf(profile: Profile, thread: Thread, filter: Filter): Part {
  const [from, to] = filter.range ? [after(thread.time, filter.range[0]), after(thread.time, filter.range[1])] : [0, thread.length]
  return { thread, from, to, wanted: picks(profile, thread, filter) }
}

// In units; `whole.most`: the largest weight of a tick.
function addWeights({ thread, from, to, wanted }: Part, into: Float64Array, whole: { most: number; ticks: number; squares: number }): void {
  const { stack, weight, extraTicks } = thread
  let { most, ticks, squares } = whole
  for (let i = from; i < to; i++) {
    if (wanted && !wanted(i)) continue
    const w = weight[i]!
    const of = 1 + (extraTicks ? extraTicks[i]! : 0)
    into[stack[i]!]! += w
    ticks += of
    squares += (w * w) / of
    if (w > most * of) most = w / of
  }
  Object.assign(whole, { most, ticks, squares })
}

function addTicks({ thread: { stack, extraTicks }, from, to, wanted }: Part, into: Float64Array): void {
  for (let i = from; i < to; i++) if (!wanted || wanted(i)) into[stack[i]!]! += 1 + (extraTicks ? extraTicks[i]! : 0)
}

function addSquares({ thread: { stack, weight, extraTicks }, from, to, wanted }: Part, unit: number, into: Float64Array): void {
  for (let i = from; i < to; i++) {
    if (!wanted || wanted(i)) into[stack[i]!]! += (weight[i]! ** 2 * unit) / (1 + (extraTicks ? extraTicks[i]! : 0))
  }
}

// In units.
function unknownOf({ thread: { weight, flags }, from, to, wanted }: Part): number {
  if (!flags) return 0
  let sum = 0
  for (let i = from; i < to; i++) {
    if (isUnknown(flags[i]!) && (!wanted || wanted(i))) sum += weight[i]!
  }
  return sum
}

// The first place of a rising column whose value is not below `value`.
export function after(column: Uint32Array, value: number): number {
  let low = 0
  let high = column.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (column[middle]! < value) low = middle + 1
    else high = middle
  }
  return low
}

// What each thread has of what is looked at.
export function threadTotals(profile: Profile, filter: Filter): Float64Array {
  return Float64Array.from(profile.threads, (thread, place) => {
    if (filter.threads !== null && !filter.threads.has(place)) return 0
    const wanted = picks(profile, thread, filter)
    const [from, to] = filter.range ? filter.range.map((edge) => after(thread.time, edge)) : [0, thread.length]
    let sum = 0
    for (let i = from!; i < to!; i++) if (!wanted || wanted(i)) sum += thread.weight[i]!
    return sum * profile.weightUnit
  })
}

type Wanted = ((sample: number) => boolean) | null // null: all

// Which samples of a thread are looked at, whenever they were taken.
export function picks(profile: Profile, thread: Thread, { labels, cpu, reason }: Filter): Wanted {
  const { label, flags, stack } = thread
  const mask = labelMask(profile, labels)
  const labelled: Wanted = mask && ((i) => mask[label ? label[i]! : 0] === 1)
  const wanted = cpu === 'off' ? OFF_CPU : 0
  const ran: Wanted = cpu && ((i) => ((flags ? flags[i]! : 0) & OFF_CPU) === wanted && (!labelled || labelled(i)))
  if (reason === null) return ran ?? labelled
  const { names, of } = reasonsOf(profile)
  const place = names.indexOf(reason)
  const others = ran ?? labelled
  return (i) => of[profile.waited[stack[i]!]!] === place && (!others || others(i))
}

// Whether threads of this profile ran in some samples, and waited in others.
export const hasOffCpu = (profile: Profile): boolean => profile.threads.some(({ flags }) => flags?.some((each) => each & OFF_CPU))

// Which sets of labels are looked at; null: all.
function labelMask(profile: Profile, labels: Filter['labels']): Uint8Array | null {
  const chosen = Object.entries(labels)
  if (chosen.length === 0) return null
  return Uint8Array.from(profile.labelSets, (set) => Number(chosen.every(([key, value]) => set[key] === value)))
}

// Which values each label has, in any sample's set.
export function labelValues(profile: Profile): Map<string, string[]> {
  const values = new Map<string, Set<string>>()
  for (const set of profile.labelSets) {
    for (const [key, value] of Object.entries(set)) values.set(key, (values.get(key) ?? new Set()).add(String(value)))
  }
  return new Map([...values].sort().map(([key, set]) => [key, [...set].sort()]))
}

// What a lane's colours tell apart: whether a thread ran, or what it waited for.
export type Parting = 'cpu' | 'reason'

// Of each bin the share of its time that samples of each kind stand for, or what was counted in it. Kinds are on and off the CPU, or
// `reasonsOf`; those that a thread has no samples of are missing.
export type Activity = (Float32Array | undefined)[]

export function activity(profile: Profile, thread: Thread, bins: number, by: Parting = 'cpu'): Activity {
  const lanes: Activity = []
  const { time, weight, flags, stack } = thread
  const { of } = reasonsOf(profile)
  const scale = bins / profile.duration
  for (let i = 0; i < thread.length; i++) {
    const kind = by === 'reason' ? of[profile.waited[stack[i]!]!]! : flags && flags[i]! & OFF_CPU ? 1 : 0
    const lane = (lanes[kind] ??= new Float32Array(bins))
    const end = time[i]! * scale
    const last = Math.min(bins - 1, end | 0)
    if (profile.counts) {
      lane[last]! += weight[i]! * profile.weightUnit
      continue
    }
    const begin = Math.max(0, (time[i]! - weight[i]!) * scale)
    const first = begin | 0
    if (first >= last) lane[last]! += end - begin
    else {
      lane[first]! += first + 1 - begin
      for (let bin = first + 1; bin < last; bin++) lane[bin]! += 1
      lane[last]! += end - last
    }
  }
  return lanes
}

// A row of the timeline: a thread's samples of one type.
export interface Lane {
  parts: Activity
  place: number // of the thread
  type: number
  first: boolean // of the thread's lanes
  most: number // what a full bin holds
}

// Samples of tasks are of many at once.
export const overlaps = ({ type, counts }: Profile): boolean => counts !== '' || type === 'tasks'

// Of each thread a lane of the first type, and of those others that it has samples of. Lanes of a type have one scale.
export function lanesOf(types: Profile[], bins: number, by: Parting = 'cpu'): Lane[] {
  const lanes = types[0]!.threads.flatMap((_, place) =>
    types.map((profile, type): Lane | null =>
      type === 0 || profile.threads[place]!.length
        ? { parts: activity(profile, profile.threads[place]!, bins, profile.counts ? 'cpu' : by), place, type, first: type === 0, most: 1 }
        : null,
    ),
  ).filter((lane) => lane !== null)
  types.forEach((profile, type) => {
    const those = overlaps(profile) ? lanes.filter((lane) => lane.type === type) : []
    const most = Math.max(0, ...those.map(({ parts }) => fullest(parts, bins)))
    for (const lane of those) lane.most = most || 1
  })
  return lanes
}

function fullest(parts: Activity, bins: number): number {
  let most = 0
  for (let bin = 0; bin < bins; bin++) most = Math.max(most, parts.reduce((sum, part) => sum + (part?.[bin] ?? 0), 0))
  return most
}
