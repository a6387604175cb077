// What the page shows: the profile, what was chosen, and all that follows from both. Data flows one way: the views read these
// signals and set only those of the first half.
import { computed, signal } from '@preact/signals'
import { aggregate, EVERYTHING, hasOffCpu, isEverything, threadTotals, type Filter, type Parting } from './data/aggregate'
import { figures, outermost, selfOfFunctions } from './data/figures'
import { labels, nodeLabels, shown, type Grain } from './data/labels'
import { reasonsOf, type Profile } from './data/profile'
import { reshape, Role } from './data/shape'
import { sourceLines } from './data/source'
import { treeOf, weighted } from './data/tree'
import { reasonSums, someSums } from './data/waits'
import { amountOf } from './format'
import { byFunction, byReason, byThread, legend as legendOf, packages, theme, type Colours, type Scheme } from './draw/colour'

export type Tab = 'flame' | 'table' | 'butterfly' | 'source' | 'tree' | 'waits'

export const types = signal<Profile[]>([]) // of each type of samples; set before the first view exists
export const type = signal(0) // which of them is looked at
export const tab = signal<Tab>('flame')
export const filter = signal<Filter>(EVERYTHING)
export interface Shape { // of the stacks: functions, and packages, that are not shown as they are
  merged: ReadonlySet<number>
  folded: ReadonlySet<number>
  hidden: ReadonlySet<string>
}
const WHOLE: Shape = { merged: new Set(), folded: new Set(), hidden: new Set() }
export const shape = signal<Shape>(WHOLE)
export const search = signal('')
export const byLine = signal(false)
export const flip = signal(false)
export const inTime = signal(false)
export const scheme = signal<Scheme>('package')
export const themeChoice = signal<'auto' | 'light' | 'dark'>('auto')
export const systemDark = signal(false)
export const chosen = signal(-1) // a label of `grains`, whose callers and callees are shown
export const place = signal<{ file: string; line: number } | null>(null) // in the sources
export const holder = signal('') // whose waits are shown: a key of a Holder; '': the first one's
export const waitBoxes = signal(true) // what was waited for has boxes of its own, below what waited
export const laneParting = signal<Parting>('reason')
export const helping = signal(false)
export const inverted = signal(false) // the call tree
export const zoom = signal<[number, number, number] | null>(null) // of the flame graph: from, to, both of its width; pixels from the root
export const arrived = signal(0) // how often the address said what to show

export const dark = computed(() => (themeChoice.value === 'auto' ? systemDark.value : themeChoice.value === 'dark'))
const asTaken = computed(() => types.value[type.value]!)
export const packageOf = computed(() => packages(types.value[0]!)) // each function
export const isShaped = computed(() => Object.values(shape.value).some(({ size }) => size > 0))
const trie = computed(() => {
  if (!isShaped.value) return {}
  const { merged, folded, hidden } = shape.value
  const roles = Uint8Array.from(packageOf.value, (name, fn) => (merged.has(fn) || hidden.has(name) ? Role.Merged : folded.has(fn) ? Role.Folded : Role.Kept))
  return reshape(types.value[0]!, roles)
})
export const profile = computed(() => ({ ...asTaken.value, ...trie.value }))
const first = computed(() => ({ ...types.value[0]!, ...trie.value })) // whose stacks are those of all types
export const sums = computed(() => (isEverything(filter.value) ? everything.value : aggregate(asTaken.value, filter.value)))

function grained(grain: Grain) {
  const list = labels(first.value, grain)
  const nodes = nodeLabels(first.value, list)
  const { parent } = first.value
  let outer: Uint8Array | undefined // made when first asked for: the flame graph needs none
  return { labels: list, nodes, outer: () => (outer ??= outermost(parent, nodes, list.list.length)), names: list.list.map(shown) }
}

// Functions, or their lines.
export const grains = computed(() => grained(byLine.value ? 'line' : 'function'))
const places = computed(() => grained('place'))
const spans = computed(() => grained('span'))
const figuresOf = ({ labels, nodes, outer }: ReturnType<typeof grained>) => figures(profile.value, nodes, outer(), labels.list.length, sums.value)
export const rows = computed(() => figuresOf(grains.value))
export const lines = computed(() => sourceLines(places.value.labels.list, figuresOf(places.value), spans.value.labels.list, figuresOf(spans.value)))
export const tree = computed(() => treeOf(first.value, grains.value.nodes))
// With what was waited for as boxes, if it has some.
export const boxed = computed(() => (waitBoxes.value ? { ...profile.value, stacks: profile.value.leaves } : profile.value))
export const flame = computed(() => weighted(boxed.value, tree.value, sums.value))

// Of each label, whether the search finds it.
export const found = computed(() => {
  const wanted = search.value.trim().toLowerCase()
  if (!wanted) return null
  const { labels, names } = grains.value
  return Uint8Array.from(labels.list, (label, i) => Number(names[i]!.toLowerCase().includes(wanted) || label.file.toLowerCase().includes(wanted)))
})

// The share of what the search finds: the weight of stacks with a match in them.
export const foundNs = computed(() => {
  const hits = found.value
  if (!hits) return 0
  const { parent, label } = tree.value
  const inside = new Uint8Array(parent.length)
  let result = 0
  for (let node = 1; node < parent.length; node++) {
    if (inside[parent[node]!]) inside[node] = 1
    else if (hits[label[node]!]) {
      inside[node] = 1
      result += flame.value.ns[node]!
    }
  }
  return result
})

// A weight of the type that is looked at: in a table, whose heads have its unit, and in a sentence.
export const figure = (weight: number): string => amountOf(weight, profile.value.counts)
export const amount = (weight: number): string => `${figure(weight)} ${profile.value.counts}`.trimEnd()
export const kind = computed(() => profile.value.counts || 'time') // what a total is of

// Exact calls of each function, where they were counted; they have no threads, times or labels, and no lines.
export const calls = computed(() => (isEverything(filter.value) && !byLine.value ? profile.value.about.calls : undefined))

export const palette = computed(() => theme(dark.value))

// Colours do not change with the filters, so that one finds again what one saw.
export const everything = computed(() => aggregate(asTaken.value))
export const functionTimes = computed(() => selfOfFunctions(asTaken.value, everything.value.ns))
export const colours = computed<Colours>(() => {
  if (scheme.value === 'reason') {
    const { of } = reasonsOf(profile.value)
    const { waited } = profile.value
    const one = (place: number) => weighted(boxed.value, tree.value, someSums(everything.value, (stack) => of[waited[stack]!] === place))
    return byReason(profile.value, one, tree.value, dark.value)
  }
  if (scheme.value !== 'thread') {
    return byFunction(profile.value, scheme.value, functionTimes.value, tree.value, grains.value.labels, dark.value)
  }
  const one = (place: number) => weighted(boxed.value, tree.value, aggregate(profile.value, { ...EVERYTHING, threads: new Set([place]) }))
  return byThread(profile.value, one, tree.value, dark.value)
})

// The figures of the view, whose colours are those of the whole.
export const legend = computed(() =>
  legendOf(colours.value, weightsOfColours()),
)

function weightsOfColours(): Float64Array {
  if (scheme.value === 'thread') return threadTotals(profile.value, filter.value)
  if (scheme.value === 'reason') return Float64Array.from(reasonSums(profile.value, sums.value), ({ ns }) => ns)
  return selfOfFunctions(profile.value, sums.value.ns)
}

// Whether it is known what was waited for; the reasons of this type of samples, the commonest first.
export const hasReasons = computed(() => types.value[0]!.waits.length > 0)
export const reasons = computed(() =>
  reasonSums(asTaken.value, everything.value).filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns).map(({ reason }) => reason),
)

// Of what ran and what waited, where a profile has both.
export const canSplit = computed(() => types.value.some(hasOffCpu))
export const offCpu = computed(() => (hasOffCpu(profile.value) ? aggregate(profile.value, { ...EVERYTHING, cpu: 'off' }).totalNs : 0))

// The function of a chosen line stays chosen, and a function's hottest line becomes it.
export function setByLine(value: boolean): void {
  if (value === byLine.value) return
  const fn = chosen.value < 0 ? -1 : grains.value.labels.list[chosen.value]!.fnId
  byLine.value = value
  const times = rows.value.totalNs
  chosen.value = grains.value.labels.list.reduce((best, label, i) => (label.fnId === fn && (best < 0 || times[i]! > times[best]!) ? i : best), -1)
}

// Merges or folds a function, hides a package; shows them again.
export function toggleShape<K extends keyof Shape>(key: K, one: Shape[K] extends ReadonlySet<infer T> ? T : never): void {
  const set = new Set<unknown>(shape.value[key])
  if (!set.delete(one)) set.add(one)
  shape.value = { ...shape.value, [key]: set }
}

export function showCallers(label: number): void {
  chosen.value = label
  tab.value = 'butterfly'
}

export function showSource(file: string, line: number): void {
  place.value = { file, line }
  tab.value = 'source'
}

export function clearFilters(): void {
  filter.value = EVERYTHING
  shape.value = WHOLE
  search.value = ''
}
