// Each thread's activity over time, a lane for each type of samples. Drag over it to look at a part of it only; a thread's name to look
// at that thread only; a type's name to look at samples of that type.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { aggregate, EVERYTHING, lanesOf, overlaps, type Lane, type Parting } from '../data/aggregate'
import { reasonsOf, type Marker, type Profile } from '../data/profile'
import { reasonCss } from '../draw/colour'
import { count, percent, share, time } from '../format'
import * as state from '../state'
import { Choice } from './Choice'
import { clip } from './FlameGraph'

const LANE = 22
const AXIS = 18
const BINS = 2048

export function Timeline() {
  const { timed, threads } = state.profile.value
  return timed ? <Lanes /> : threads.length > 1 ? <Threads /> : null
}

function ThreadName({ place }: { place: number }) {
  const { filter } = state
  const { threads } = filter.value
  const { name, tid } = state.profile.value.threads[place]!
  const toggle = (more: boolean) => {
    const old = threads ?? new Set<number>()
    let next = more ? new Set(old) : new Set<number>(old.size === 1 ? old : [])
    if (!next.delete(place)) next = new Set(more ? [...next, place] : [place])
    filter.value = { ...filter.value, threads: next.size ? next : null }
  }
  return (
    <button type="button" class="link" aria-pressed={threads?.has(place) ?? false}
      title={`${clip(name)} (${tid || '?'}): look at this thread only; with Shift also at it`}
      onClick={(event) => toggle(event.shiftKey || event.ctrlKey || event.metaKey)}>
      {name.length > 22 ? `${name.slice(0, 9)}…${name.slice(-11)}` : name}
    </button>
  )
}

function TypeName({ type }: { type: number }) {
  const { type: name } = state.types.value[type]!
  return (
    <button type="button" class="link type" aria-pressed={state.type.value === type} title={`Look at samples of ${name}`} onClick={() => (state.type.value = type)}>
      {name}
    </button>
  )
}

// Of a file that does not tell when its samples were taken: the threads with their shares.
function Threads() {
  const profile = state.profile.value
  const weights = useMemo(() => profile.threads.map((_, place) => aggregate(profile, { ...EVERYTHING, threads: new Set([place]) }).totalNs), [profile])
  const whole = weights.reduce((a, b) => a + b, 0)
  return (
    <section class="timeline" aria-label="Threads">
      <ul class="threads">
        {profile.threads.map((_, place) => (
          <li key={place}><ThreadName place={place} /> <span class="dim">{state.figure(weights[place]!)}, {percent(share(weights[place]!, whole))}</span></li>
        ))}
      </ul>
    </section>
  )
}

function Lanes() {
  const profile = state.profile.value
  const canvas = useRef<HTMLCanvasElement>(null)
  const [width, setWidth] = useState(0)
  const [said, setSaid] = useState('')
  const drag = useRef<{ x: number; moved: boolean } | null>(null)
  const pending = useRef(0)
  const parting = state.hasReasons.value ? state.laneParting.value : 'cpu'
  const lanes = useMemo(() => lanesOf(state.types.value, BINS, parting), [state.types.value, parting])
  const height = AXIS + LANE * lanes.length
  const { filter, dark } = state
  const { range, threads } = filter.value

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(entry!.contentRect.width))
    watch.observe(canvas.current!.parentElement!)
    return () => watch.disconnect()
  }, [])
  const painted = useRef<HTMLCanvasElement>(undefined)
  const colours = coloursOf(state.types.value, lanes, parting, dark.value)
  const look = { profile, lanes, parting, width, height, threads, dark: dark.value }
  useEffect(() => {
    painted.current = width ? paintLanes(getComputedStyle(canvas.current!), look) : undefined
  }, [width, lanes, threads, dark.value])
  useEffect(() => {
    if (painted.current) paintRange(canvas.current!, painted.current, look, range)
  }, [width, lanes, range, threads, dark.value])

  const unitsAt = (event: PointerEvent) => {
    const { left } = canvas.current!.getBoundingClientRect()
    return Math.min(1, Math.max(0, (event.clientX - left) / width)) * profile.duration
  }
  const select = (a: number, b: number) => {
    cancelAnimationFrame(pending.current)
    pending.current = requestAnimationFrame(() => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)]
      filter.value = { ...filter.value, range: [Math.round(from), Math.round(to) + (to >= profile.duration ? 1 : 0)] }
    })
  }
  return (
    <section class="timeline" aria-label="Threads over time">
      <div class="lanes">
        <ul style={{ paddingTop: `${AXIS}px` }}>
          {lanes.map(({ place, type, first }) => (
            <li key={`${place} ${type}`} style={{ height: `${LANE}px` }}>{first ? <ThreadName place={place} /> : <TypeName type={type} />}</li>
          ))}
        </ul>
        <div class="lane-box">
          <canvas ref={canvas} role="img" style={{ height: `${height}px` }}
            aria-label="Activity of each thread over time; the fields From and to choose a range by keyboard"
            onPointerDown={(event) => {
              if (event.button !== 0) return
              event.currentTarget.setPointerCapture(event.pointerId)
              drag.current = { x: unitsAt(event), moved: false }
            }}
            onPointerMove={(event) => {
              setSaid(tell(state.types.value, lanes, parting, unitsAt(event), event.offsetY, width))
              const began = drag.current
              if (!began || (!began.moved && Math.abs(unitsAt(event) - began.x) * width < 3 * profile.duration)) return
              began.moved = true
              select(began.x, unitsAt(event))
            }}
            onPointerUp={() => {
              if (drag.current && !drag.current.moved) filter.value = { ...filter.value, range: null }
              drag.current = null
            }}
            onPointerLeave={() => setSaid('')} />
        </div>
      </div>
      <ul class="legend lanes-legend" aria-label="Colours of the timeline">
        {colours.map(([css, what]) => (
          <li key={what}><span class="swatch" style={{ background: css }} />{what}</li>
        ))}
        {state.hasReasons.value && (
          <li>
            <Choice label="Threads" value={parting} onChange={(value) => (state.laneParting.value = value)}
              options={[['reason', 'by what they waited for'], ['cpu', 'on and off CPU']]} />
          </li>
        )}
      </ul>
      <p class="said dim">{said || 'Drag to look at a range only; click to look at all again. A thread’s name shows that thread only.'}</p>
    </section>
  )
}

// Colours that are in these lanes, and what each is.
function coloursOf(types: Profile[], lanes: Lane[], parting: Parting, dark: boolean): [string, string][] {
  const [times, counted] = [types.filter(({ counts }) => !counts), types.filter(({ counts }) => counts)]
  const markers = [...new Set(types[0]!.markers.map(({ name }) => (name === 'gc' ? 'garbage collection' : name)))]
  const all: [string, string, boolean][] = [
    ['--busy', state.canSplit.value ? 'on CPU' : 'samples', times.length > 0 && parting === 'cpu'],
    ['--off-cpu', 'off CPU (waiting)', state.canSplit.value && parting === 'cpu'],
    ['--counted', counted.map(({ counts }) => counts).join(', '), counted.length > 0],
    ['--gc', markers.join(', '), markers.length > 0],
  ]
  const reasons = parting === 'cpu' ? [] : reasonsOf(types[0]!).names.filter((_, kind) => lanes.some(({ parts, type }) => !types[type]!.counts && parts[kind]))
  return [
    ...reasons.map((reason): [string, string] => [reasonCss(reason, dark), reason]),
    ...all.filter(([, , there]) => there).map(([variable, what]): [string, string] => [`var(${variable})`, what]),
  ]
}

function step(span: number, room: number): number {
  const rough = span / Math.max(1, room)
  const power = 10 ** Math.floor(Math.log10(rough))
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10)
}

interface Look {
  profile: Profile
  lanes: Lane[]
  parting: Parting
  width: number // CSS pixels
  height: number
  threads: ReadonlySet<number> | null
  dark: boolean
}

function context(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1
  canvas.width = Math.max(1, Math.round(width * ratio))
  canvas.height = Math.round(height * ratio)
  const ctx = canvas.getContext('2d')!
  ctx.scale(ratio, ratio)
  return ctx
}

// All but the range, which changes while the pointer moves: for hundreds of threads this takes too long to be done for each frame.
function paintLanes(style: CSSStyleDeclaration, { profile, lanes, parting, width, height, threads, dark }: Look): HTMLCanvasElement {
  const canvas = document.createElement('canvas')
  const ctx = context(canvas, width, height)
  const colour = (name: string) => style.getPropertyValue(name)
  ctx.font = '11px system-ui, sans-serif'
  ctx.textBaseline = 'middle'
  const seconds = (profile.duration * profile.unit) / 1e9
  const tick = step(seconds, width / 110)
  const [line, dim] = [colour('--line'), colour('--dim')]
  for (let at = 0; at <= seconds + tick / 1e6; at += tick) {
    const x = Math.round((at / seconds) * width)
    ctx.fillStyle = line
    ctx.fillRect(x, AXIS - 4, 1, height)
    ctx.fillStyle = dim
    if (x < width - 40) ctx.fillText(at === 0 ? '0' : time(at * 1e9).replace(/\.?0+ /, ' '), x + 4, AXIS / 2)
  }
  const high = LANE - 6
  const tall = (part: number) => (part > 0 ? Math.max(1, Math.round(Math.min(1, part) * high)) : 0)
  const mean = (bins: Float32Array | undefined, x: number): number => {
    if (!bins) return 0
    const from = Math.floor((x / width) * BINS)
    const to = Math.max(from + 1, Math.floor(((x + 1) / width) * BINS))
    let sum = 0
    for (let bin = from; bin < to && bin < BINS; bin++) sum += bins[bin]!
    return sum / (to - from)
  }
  const { names } = reasonsOf(profile)
  const colourOf = (type: number, kind: number): string => {
    if (state.types.value[type]!.counts) return colour('--counted')
    if (parting === 'reason') return reasonCss(names[kind]!, dark)
    return colour(kind === 0 ? '--busy' : '--off-cpu')
  }
  lanes.forEach(({ parts, place, type, most }, row) => {
    const base = AXIS + (row + 1) * LANE - 3
    ctx.globalAlpha = threads && !threads.has(place) ? 0.25 : 1
    const sums = new Float64Array(Math.ceil(width)) // of the kinds so far: what ran is below, then each reason upon the others
    parts.forEach((bins, kind) => {
      ctx.fillStyle = colourOf(type, kind)
      for (let x = 0; x < width; x++) {
        const part = mean(bins, x)
        if (!part) continue
        const below = tall(sums[x]! / most)
        const top = tall((sums[x]! += part) / most)
        if (top > below) ctx.fillRect(x, base - top, 1, top - below)
      }
    })
  })
  ctx.globalAlpha = 1
  ctx.fillStyle = colour('--gc')
  for (const { thread, time: at, duration } of profile.markers) {
    const row = lanes.findIndex(({ place }) => profile.threads[place]!.id === thread)
    const x = (at / profile.duration) * width
    if (row >= 0) ctx.fillRect(x, AXIS + row * LANE + 1, Math.max(2, (duration / profile.duration) * width), 4)
  }
  return canvas
}

function paintRange(canvas: HTMLCanvasElement, lanes: HTMLCanvasElement, { profile, width, height, dark }: Look, range: readonly [number, number] | null): void {
  const ctx = context(canvas, width, height)
  ctx.drawImage(lanes, 0, 0, width, height)
  if (!range) return
  const [a, b] = [(range[0] / profile.duration) * width, (range[1] / profile.duration) * width]
  ctx.fillStyle = dark ? 'rgb(10 12 16 / 65%)' : 'rgb(255 255 255 / 70%)'
  ctx.fillRect(0, AXIS, a, height)
  ctx.fillRect(b, AXIS, width - b, height)
  ctx.fillStyle = getComputedStyle(canvas).getPropertyValue('--accent')
  ctx.fillRect(a, AXIS - 4, 1.5, height)
  ctx.fillRect(b - 1.5, AXIS - 4, 1.5, height)
}

// What is under the pointer, in words.
function tell(types: Profile[], lanes: Lane[], parting: Parting, at: number, y: number, width: number): string {
  const when = time(at * types[0]!.unit)
  const lane = lanes[Math.floor((y - AXIS) / LANE)]
  if (!lane) return when
  const profile = types[lane.type]!
  const thread = profile.threads[lane.place]!
  const bin = Math.min(BINS - 1, Math.floor((at / profile.duration) * BINS))
  const near = (3 * profile.duration) / width
  const marker = profile.markers.find((one) => one.thread === thread.id && at >= one.time - near && at <= one.time + one.duration + near)
  const parts = [...lane.parts].map((part) => part?.[bin] ?? 0)
  if (profile.counts) {
    const [from, to] = [bin, bin + 1].map((edge) => time((edge * profile.duration * profile.unit) / BINS))
    return `${from} to ${to}: ${thread.name}, ${count(Math.round(parts[0] ?? 0))} ${profile.counts}`
  }
  const { names } = reasonsOf(profile)
  const title = (kind: number) => (parting === 'reason' ? names[kind]! : kind ? 'off the CPU' : 'active')
  const amount = (part: number) => (overlaps(profile) ? `${part.toFixed(1)} at a time` : percent(Math.min(1, part)))
  const order = parts.map((part, kind) => [part, kind] as const).filter(([part]) => part > 0).sort((a, b) => b[0] - a[0])
  const shown = order.map(([part, kind]) => `${amount(part)} ${title(kind)}`).join(', ') || 'no samples'
  return `${when}: ${thread.name}, ${shown}${marker ? `; ${markerText(marker, profile.unit)}` : ''}`
}

export function markerText({ name, duration, data }: Marker, unit: number): string {
  const more = Object.entries(data ?? {}).map(([key, value]) => `${key} ${String(value)}`)
  return [`${name === 'gc' ? 'garbage collection' : name} ${time(duration * unit)}`, ...more].join(', ')
}
