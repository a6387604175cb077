// A flame graph with what is pointed at and what is selected. The canvas is a tree of which only the selected item is in the
// document, with its figures as its name; the Table tab has the same figures as a real table.
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ComponentChildren } from 'preact'
import { Flame, type Part } from '../draw/flame'
import type { Rows } from '../draw/rows'
import type { Weighted } from '../data/tree'
import type { Waited } from '../data/waits'
import type { Label } from '../data/labels'
import type { Whole } from '../data/aggregate'
import { count, interval, percent, plural, share } from '../format'
import { amount, palette } from '../state'

interface Props {
  id: string
  title: string
  weighted: Weighted
  rows: Rows
  fill: Uint32Array
  names: string[] // of each label
  labels: Label[]
  reasons?: string[] // of each node, beside its name: what it waited for
  waitsIn?: (node: number) => Waited[]
  lit: Uint8Array | null // of each label
  flip: boolean
  whole: Whole
  height?: number // CSS pixels; else what room there is
  actions: (label: number) => ComponentChildren
  onKey?: (key: string, label: number) => void
  start?: Part | null // of the graph, that is looked at first
  onView?: (part: Part | null) => void // null: the whole graph
  bar?: (flame: { reset: () => void; zoomed: boolean }) => ComponentChildren
}

export function FlameGraph(props: Props) {
  const { id, title, weighted, rows, fill, names, labels, reasons, lit, flip, whole, height } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const flame = useRef<Flame>(undefined)
  const [hover, setHover] = useState({ node: 0, x: 0, y: 0 })
  const [selected, setSelected] = useState(0)
  const [zoomed, setZoomed] = useState(false)
  const { tree } = weighted
  const theme = palette.value

  useLayoutEffect(() => {
    flame.current = new Flame(canvas.current!, {
      hover: (node, x, y) => setHover({ node, x, y }),
      select: setSelected,
      zoom: setZoomed,
      view: (part) => props.onView?.(part),
    }, props.start ?? null)
    const watch = new ResizeObserver(([entry]) => flame.current!.resize(entry!.contentRect.width, entry!.contentRect.height))
    watch.observe(box.current!)
    return () => watch.disconnect()
  }, [])

  const titled = (node: number) => names[tree.label[node]!]! + (reasons?.[node] ? ` · ${reasons[node]}` : '')
  useLayoutEffect(() => {
    const litNodes = lit && Uint8Array.from(tree.label, (label, node) => (node ? lit[label]! : 0))
    flame.current!.set({ rows, fill, flip, theme, lit: litNodes, name: titled }, tree.parent, tree.depth)
  }, [rows, fill, names, reasons, lit, flip, theme, tree])

  const about = (node: number) => {
    const [ns, samples] = [weighted.ns[node]!, weighted.samples[node]!]
    return {
      figures: `${amount(ns)}, ${percent(share(ns, whole.totalNs))} (95 %: ${interval(ns, whole)}), ${plural(samples, 'sample')}`,
      own: node ? ownOf(weighted, node) : 0,
    }
  }
  const label = (node: number) => tree.label[node]!
  const live = selected && selected < tree.label.length ? selected : 0

  return (
    <div class="flame-view">
      {props.bar?.({ reset: () => flame.current?.reset(), zoomed })}
      <div class="flame-box" ref={box} style={height ? { height: `${height}px`, flex: 'none' } : undefined}>
        <canvas
          ref={canvas}
          id={id}
          tabIndex={0}
          role="tree"
          aria-label={title}
          aria-describedby="flame-keys"
          aria-activedescendant={live ? `${id}-selected` : undefined}
          onKeyDown={(event) => {
            if (live && !event.ctrlKey && !event.metaKey && !event.altKey) props.onKey?.(event.key, label(live))
          }}
        >
          <div
            id={`${id}-selected`}
            role="treeitem"
            aria-selected={live > 0}
            aria-level={live ? tree.depth[live]! + 1 : 1}
            aria-label={live ? `${titled(live)}: ${about(live).figures}` : 'nothing selected'}
          />
        </canvas>
      </div>
      <div class="selected" data-testid={`${id}-about`} aria-live="polite">
        {live ? (
          <>
            <div class="selected-text">
              <strong title={labels[label(live)]!.file}>{clip(names[label(live)]!)}</strong>
              <span>
                {about(live).figures}, {amount(about(live).own)} of it itself
              </span>
              <Waits of={props.waitsIn?.(live)} />
            </div>
            <div class="selected-actions">{props.actions(label(live))}</div>
          </>
        ) : (
          <span class="dim">Click a box to zoom to it; arrow keys walk from box to box.</span>
        )}
      </div>
      {hover.node > 0 && hover.node < tree.label.length && (
        <div class="tooltip" style={tooltipPlace(hover.x, hover.y)} role="presentation">
          <strong>{clip(names[label(hover.node)]!)}</strong>
          <div>{about(hover.node).figures}</div>
          <div>{amount(about(hover.node).own)} in itself</div>
          <Waits of={props.waitsIn?.(hover.node)} />
          <div class="dim">{clip(labels[label(hover.node)]!.file, true)}</div>
        </div>
      )}
    </div>
  )
}

const LISTED = 3

function Waits({ of = [] }: { of?: Waited[] }) {
  if (of.length === 0) return null
  const rest = of.slice(LISTED).reduce((sum, { ns }) => sum + ns, 0)
  const listed = of.slice(0, LISTED).map(({ text, ns }) => `${amount(ns)} ${clip(text)}`)
  const more = rest > 0 ? [`${amount(rest)} ${count(of.length - LISTED)} more`] : []
  return <div class="waits">waited: {[...listed, ...more].join('; ')}</div>
}

function ownOf({ tree, ns }: Weighted, node: number): number {
  let own = ns[node]!
  for (let child = node + 1; child < tree.parent.length; child++) if (tree.parent[child] === node) own -= ns[child]!
  return Math.max(0, own)
}

// A name of thousands of characters must not fill the window.
export function clip(text: string, end = false): string {
  if (text.length <= 240) return text
  return end ? `…${text.slice(-239)}` : `${text.slice(0, 239)}…`
}

function tooltipPlace(x: number, y: number) {
  const right = x > window.innerWidth - 440
  const above = y > window.innerHeight - 140
  return {
    left: right ? undefined : `${x + 14}px`,
    right: right ? `${window.innerWidth - x + 14}px` : undefined,
    top: above ? undefined : `${y + 18}px`,
    bottom: above ? `${window.innerHeight - y + 10}px` : undefined,
  }
}
