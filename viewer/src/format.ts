// Numbers as people read them.
import type { Whole } from './data/aggregate'
import { samplesOf, wilson } from './data/figures'

export function time(ns: number): string {
  if (ns >= 60e9) return `${(ns / 60e9).toFixed(1)} min`
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(2)} s`
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(2)} ms`
  return `${(ns / 1e3).toFixed(ns && ns < 1e5 ? 1 : 0)} µs`
}

// A weight: time, or how many of what `counts` says.
export const amountOf = (weight: number, counts: string): string => (counts ? count(Math.round(weight)) : time(weight))

export function percent(share: number): string {
  return `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 2 : 1)} %`
}

export const count = (n: number): string => n.toLocaleString('en-US')

export const plural = (n: number, word: string): string => `${count(n)} ${word}${n === 1 ? '' : 's'}`

export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)

export const share = (part: number, whole: number): number => (whole > 0 ? part / whole : 0)

// `12.3–14.5 %`: where the true share lies in 95 of 100 such runs, whoever's the unknown time was. `?` where most is unknown.
// `squares`: the part's own, where samples are big.
export function interval(part: number, whole: Whole, squares = 0): string {
  const ends = endsOf(part, whole, squares)
  if (!ends) return '?'
  const [low, high] = ends
  const digits = high < 0.0995 ? 2 : 1
  return `${(100 * low).toFixed(digits)}–${(100 * high).toFixed(digits)} %`
}

// `66 ns–83 ns`: the same of the time of one of so many calls.
export function perCallInterval(part: number, whole: Whole, calls: number, squares = 0, counts = ''): string {
  const ends = endsOf(part, whole, squares)
  return ends ? ends.map((end) => perCall((end * whole.totalNs) / calls, counts)).join('–') : '?'
}

// What one call takes.
export function perCall(weight: number, counts = ''): string {
  if (!counts && weight >= 1000) return time(weight)
  const digits = weight < 10 ? 2 : weight < 100 ? 1 : 0
  return weight.toFixed(digits) + (counts ? '' : ' ns')
}

function endsOf(part: number, whole: Whole, squares: number): [number, number] | null {
  const { totalNs, unknownNs } = whole
  const samples = samplesOf(part, whole, squares)
  if (share(unknownNs, totalNs) > MOST_UNKNOWN) return null
  const end = (ns: number): [number, number] => wilson(Math.max(0, Math.min(1, share(ns, totalNs))), samples)
  return [end(part - unknownNs)[0], end(part + unknownNs)[1]]
}

export const MOST_UNKNOWN = 0.5
