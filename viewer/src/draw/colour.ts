// Colours of boxes: a hue for each category, of even lightness, with a little variation from function to function.
import { Kind, reasonsOf, type Profile } from '../data/profile'
import { baseName, type Labels } from '../data/labels'
import type { Tree, Weighted } from '../data/tree'

export type Scheme = 'package' | 'language' | 'thread' | 'reason'

export interface Category {
  name: string
  ns: number
  css: string
}

export interface Colours {
  fill: Uint32Array // of each node, as ImageData has it (little-endian ABGR)
  categories: Pick<Category, 'name' | 'css'>[]
  of: Uint32Array // the category of each function, or of each thread
}

const HUES = [48, 250, 150, 305, 15, 195, 95, 340, 125, 275]

// OKLCH -> sRGB (https://bottosson.github.io/posts/oklab/).
export function oklch(l: number, c: number, hue: number): [number, number, number] {
  const [a, b] = [c * Math.cos((hue * Math.PI) / 180), c * Math.sin((hue * Math.PI) / 180)]
  const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3
  const y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3
  const z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3
  const gamma = (v: number) => Math.round(255 * Math.min(1, Math.max(0, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055)))
  return [
    gamma(4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z),
    gamma(-1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z),
    gamma(-0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z),
  ]
}

const pack = ([r, g, b]: readonly number[]): number => ((255 << 24) | (b! << 16) | (g! << 8) | r!) >>> 0

function tone(category: number, dark: boolean, variation: number): [number, number, number] {
  const grey = category >= HUES.length || category < 0
  const lightness = (dark ? 0.45 : 0.81) + variation * (dark ? 0.05 : 0.06)
  return oklch(lightness, grey ? 0.008 : dark ? 0.085 : 0.095, grey ? 270 : HUES[category]!)
}

// Reasons have colours of their own, the same in all views: hue and chroma. What has no name here is grey.
const REASONS: Record<string, [number, number]> = {
  running: [150, 0.1], 'ready, without a processor': [95, 0.1], 'the GIL': [25, 0.12], 'a lock': [60, 0.11], 'input or output': [250, 0.1],
  'a child process': [195, 0.09], sleep: [300, 0.08], idle: [270, 0.015], 'page faults and other kernel work': [345, 0.1],
  'ready, but its event loop is busy': [110, 0.1], 'another task': [275, 0.1], 'a job of another thread': [220, 0.1], 'a future': [172, 0.09],
}

export function reasonTone(reason: string, dark: boolean): [number, number, number] {
  const [hue, chroma] = REASONS[reason] ?? [270, 0.008]
  const pale = reason === 'idle' ? 0.08 : 0
  return oklch(dark ? 0.5 - pale : 0.78 + pale, chroma, hue)
}

export const reasonCss = (reason: string, dark: boolean): string => `rgb(${reasonTone(reason, dark).join(' ')})`

function hash(text: string): number {
  let h = 2166136261
  for (let i = 0; i < text.length && i < 64; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619)
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d)
  return ((h >>> 12) & 1023) / 1023 - 0.5
}

const SITE = /[/\\](?:site|dist)-packages[/\\]([^/\\]+)/
const STDLIB = /[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\]|^<frozen /

// What each function belongs to: an installed package, the standard library, a native library, a place in the program.
export function packages(profile: Profile): string[] {
  const own = profile.fns.filter((fn) => fn.kind === Kind.Python && !SITE.test(fn.file) && !STDLIB.test(fn.file) && /[/\\]/.test(fn.file))
  const directories = own.map((fn) => fn.file.split(/[/\\]/).slice(0, -1))
  const common = directories.reduce((a, b) => a.slice(0, a.findIndex((part, i) => part !== b[i]) >>> 0), directories[0] ?? [])
  return profile.fns.map((fn) => {
    if (fn.reason) return 'what was waited for'
    if (fn.kind === Kind.Mark) return fn.qualname
    const site = SITE.exec(fn.file)
    if (site) return site[1]!.replace(/(\.py|\..*so|\.pyd)$/, '')
    if (fn.kind === Kind.Native) return baseName(fn.file) || 'native, unknown'
    if (STDLIB.test(fn.file)) return 'standard library'
    const parts = fn.file.split(/[/\\]/)
    return (parts.length > 1 ? parts[common.length] : fn.file) ?? fn.file
  })
}

function languages(profile: Profile): string[] {
  return profile.fns.map((fn) => (fn.kind === Kind.Python ? 'Python' : fn.kind === Kind.Native ? 'native' : 'neither'))
}

function numbered(names: string[], weight: (at: number) => number): { of: Uint32Array; order: [string, number][] } {
  const sums = new Map<string, number>()
  names.forEach((name, at) => sums.set(name, (sums.get(name) ?? 0) + weight(at)))
  const order = [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
  const place = new Map(order.map(([name], i) => [name, i]))
  return { of: Uint32Array.from(names, (name) => place.get(name)!), order }
}

const categoriesOf = (order: [string, number][], dark: boolean) => order.map(([name], i) => ({ name, css: `rgb(${tone(i, dark, 0).join(' ')})` }))

// What is there of each colour in a view, the largest first. `weights`: of each function, or of each thread.
export function legend({ categories, of }: Omit<Colours, 'fill'>, weights: Float64Array): Category[] {
  const shown = categories.map((category) => ({ ...category, ns: 0 }))
  weights.forEach((weight, i) => (shown[of[i]!]!.ns += weight))
  return shown.filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns)
}

// By package or language: `selfNs` of each function decides which categories get the first colours.
export function byFunction(profile: Profile, scheme: 'package' | 'language', selfNs: Float64Array, tree: Tree, labels: Labels, dark: boolean): Colours {
  const { of, order } = numbered(scheme === 'package' ? packages(profile) : languages(profile), (fn) => selfNs[fn] ?? 0)
  const ofFn = Uint32Array.from(profile.fns, (fn, i) => pack(fn.reason ? reasonTone(fn.reason, dark) : tone(of[i]!, dark, hash(fn.qualname))))
  const fill = new Uint32Array(tree.parent.length)
  const ofLabel = Uint32Array.from(labels.list, ({ fnId }) => ofFn[fnId]!)
  for (let node = 1; node < fill.length; node++) fill[node] = ofLabel[tree.label[node]!]!
  return { fill, of, categories: categoriesOf(order, dark) }
}

// Of each node the place of the tree with the most time in it, -1: none has any; and the time of each tree. `each` gives the trees one
// by one.
function mostOf(n: number, places: unknown[], each: (place: number) => Weighted): { whose: Int32Array; times: number[] } {
  const [most, whose] = [new Float64Array(n), new Int32Array(n).fill(-1)]
  const times = places.map((_, place) => {
    const { ns } = each(place)
    for (let node = 1; node < n; node++) {
      if (ns[node]! > most[node]!) [most[node], whose[node]] = [ns[node]!, place]
    }
    return ns[0]!
  })
  return { whose, times }
}

// By thread: each box has the colour of the thread that spent most time in it.
export function byThread(profile: Profile, each: (place: number) => Weighted, tree: Tree, dark: boolean): Colours {
  const n = tree.parent.length
  const { whose, times } = mostOf(n, profile.threads, each)
  const { of, order } = numbered(profile.threads.map((t, i) => `${t.name} (${t.tid || i})`), (place) => times[place]!)
  const tones = profile.threads.map((_, place) => pack(tone(of[place]!, dark, 0)))
  const fill = new Uint32Array(n)
  for (let node = 1; node < n; node++) fill[node] = whose[node]! < 0 ? pack(tone(-1, dark, 0)) : tones[whose[node]!]!
  return { fill, of, categories: categoriesOf(order, dark) }
}

// By reason: each box has the colour of that for which most of its time was waited in it and below, or in which it ran.
export function byReason(profile: Profile, each: (place: number) => Weighted, tree: Tree, dark: boolean): Colours {
  const n = tree.parent.length
  const { names } = reasonsOf(profile)
  const { whose } = mostOf(n, names, each)
  const tones = names.map((name) => pack(reasonTone(name, dark)))
  const fill = new Uint32Array(n)
  for (let node = 1; node < n; node++) fill[node] = whose[node]! < 0 ? pack(tone(-1, dark, 0)) : tones[whose[node]!]!
  return { fill, of: Uint32Array.from(names, (_, i) => i), categories: names.map((name) => ({ name, css: reasonCss(name, dark) })) }
}

// What a search shows: matches as they are, the rest faded into the background.
export function faded(fill: Uint32Array, matches: Uint8Array, background: number): Uint32Array {
  const mixed = new Map<number, number>()
  return fill.map((colour, node) => {
    if (matches[node]) return colour
    let result = mixed.get(colour)
    if (result === undefined) {
      const part = (shift: number) => Math.round(((colour >>> shift) & 255) * 0.22 + ((background >>> shift) & 255) * 0.78) << shift
      mixed.set(colour, (result = ((255 << 24) | part(16) | part(8) | part(0)) >>> 0))
    }
    return result
  })
}

export interface Theme {
  background: number // ABGR
  ink: string
  fadedInk: string
  mark: string // outlines of what is selected
}

export const theme = (dark: boolean): Theme =>
  dark
    ? { background: pack([24, 26, 31]), ink: '#f4f5f7', fadedInk: '#7d828d', mark: '#ffffff' }
    : { background: pack([255, 255, 255]), ink: '#16181d', fadedInk: '#8a8f99', mark: '#16181d' }
