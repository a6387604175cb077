// What is shown, in the fragment of the page's address: a link shows what its writer saw. Only what is not as at first is written.
import { batch } from '@preact/signals'
import { EVERYTHING, labelValues } from './data/aggregate'
import { reasonsOf } from './data/profile'
import * as state from './state'

const LABEL = 'label.'
const numbers = (text: string | null): number[] => (text ?? '').split(',').filter(Boolean).map(Number).filter(Number.isFinite)

export function written(): string {
  const { filter, shape, place } = state
  const { threads, range, labels, cpu, reason } = filter.value
  const all = new URLSearchParams()
  const set = (key: string, value: string | number, first: string | number = '') => value !== first && all.set(key, String(value))
  set('tab', state.tab.value, 'flame')
  set('type', state.type.value, 0)
  set('search', state.search.value)
  set('threads', threads ? [...threads].join(',') : '')
  set('range', range?.join(',') ?? '')
  set('cpu', cpu ?? '')
  set('reason', reason ?? '')
  for (const [key, value] of Object.entries(labels)) set(LABEL + key, value)
  set('merged', [...shape.value.merged].join(','))
  set('folded', [...shape.value.folded].join(','))
  for (const name of shape.value.hidden) all.append('hidden', name)
  set('boxes', state.byLine.value ? 'line' : 'function', 'function')
  set('roots', state.flip.value ? 'flame' : 'icicle', 'icicle')
  set('order', state.inTime.value ? 'time' : 'heavy', 'heavy')
  set('colour', state.scheme.value, 'package')
  set('tree', state.inverted.value ? 'inverted' : 'calls', 'calls')
  set('waits', state.waitBoxes.value ? 'boxes' : 'names', 'boxes')
  set('lanes', state.laneParting.value, 'reason')
  set('holder', state.holder.value)
  set('theme', state.themeChoice.value, 'auto')
  set('chosen', state.chosen.value, -1)
  if (place.value) all.set('source', `${place.value.line} ${place.value.file}`)
  set('zoom', state.zoom.value?.map((part) => Number(part.toPrecision(9))).join(',') ?? '')
  return all.toString()
}

// Whoever wrote the address may have seen another page: what this one does not have is left out.
export function read(fragment: string): void {
  const all = new URLSearchParams(fragment.replace(/^#/, ''))
  const one = <T extends string>(key: string, ...known: T[]): T => known.find((each) => each === all.get(key)) ?? known[0]!
  batch(() => {
    state.type.value = state.types.value[Number(all.get('type'))] ? Number(all.get('type')) : 0
    const { threads, fns } = state.profile.value
    const [chosenThreads, range, zoom] = [numbers(all.get('threads')).filter((place) => threads[place]), numbers(all.get('range')), numbers(all.get('zoom'))]
    const functions = (key: string) => new Set(numbers(all.get(key)).filter((fn) => fns[fn]))
    const values = labelValues(state.profile.value)
    const labels = Object.fromEntries([...all].filter(([key]) => key.startsWith(LABEL)).map(([key, value]) => [key.slice(LABEL.length), value] as const)
      .filter(([key, value]) => values.get(key)?.includes(value)))
    const cpu = one('cpu', '', 'on', 'off')
    state.filter.value = {
      ...EVERYTHING, labels, cpu: cpu || null, reason: one('reason', '', ...reasonsOf(state.profile.value).names) || null,
      threads: chosenThreads.length ? new Set(chosenThreads) : null,
      range: range.length === 2 && range[0]! < range[1]! ? [range[0]!, range[1]!] : null,
    }
    state.shape.value = { merged: functions('merged'), folded: functions('folded'), hidden: new Set(all.getAll('hidden')) }
    state.tab.value = one('tab', 'flame', 'table', 'butterfly', 'source', 'tree', 'waits')
    state.search.value = all.get('search') ?? ''
    state.byLine.value = one('boxes', 'function', 'line') === 'line'
    state.flip.value = one('roots', 'icicle', 'flame') === 'flame'
    state.inTime.value = one('order', 'heavy', 'time') === 'time'
    state.scheme.value = one('colour', 'package', 'language', 'thread', 'reason')
    state.waitBoxes.value = one('waits', 'boxes', 'names') === 'boxes'
    state.laneParting.value = one('lanes', 'reason', 'cpu')
    state.holder.value = all.get('holder') ?? ''
    state.inverted.value = one('tree', 'calls', 'inverted') === 'inverted'
    state.themeChoice.value = one('theme', 'auto', 'light', 'dark')
    const chosen = Number(all.get('chosen') ?? -1)
    state.chosen.value = state.grains.value.labels.list[chosen] ? chosen : -1
    const [, line, file] = /^(\d+) ([^]*)$/.exec(all.get('source') ?? '') ?? []
    state.place.value = file === undefined ? null : { file, line: Number(line) }
    state.zoom.value = zoom.length === 3 && zoom[0]! < zoom[1]! ? (zoom as [number, number, number]) : null
    state.arrived.value++
  })
}

// Browsers allow some hundred changes of an address in ten seconds, and a range that is dragged would make more.
const PAUSE_MS = 150

export function follow(effect: (run: () => void) => void): void {
  read(location.hash)
  let timer = 0
  window.addEventListener('hashchange', () => location.hash.slice(1) !== written() && read(location.hash))
  effect(() => {
    const text = written()
    clearTimeout(timer)
    timer = window.setTimeout(() => {
      if (location.hash.slice(1) === text) return
      try {
        history.replaceState(null, '', `#${text}`)
      } catch {
        // A frame without an address of its own (Jupyter) has nothing to keep it in.
      }
    }, PAUSE_MS)
  })
}
