// One flame graph: what part of it is visible, what is pointed at and selected, and how mouse, wheel and keyboard change that.
import { Painter, ROW, type Scene, type View } from './painter'
import type { Box } from './rows'

export interface Told {
  hover(node: number, x: number, y: number): void // 0: nothing; CSS pixels of the window
  select(node: number): void // 0: nothing
  zoom(zoomed: boolean): void
  view(part: Part | null): void // null: the whole graph
}

export type Part = [from: number, to: number, scroll: number] // from and to are parts of the width

const EASE_MS = 150
const still = () => window.matchMedia('(prefers-reduced-motion: reduce)').matches

export class Flame {
  private painter: Painter
  private scene: Scene | null = null
  private parent: Uint32Array = new Uint32Array(1)
  private depth: Uint16Array = new Uint16Array(1)
  private view: View = { from: 0, to: 1, scroll: 0 }
  private goal: { from: View; to: View; began: number } | null = null
  private hovered: Box | null = null
  private selected: Box | null = null
  private frame = 0
  private drag: { x: number; y: number; view: View; moved: boolean } | null = null

  constructor(private canvas: HTMLCanvasElement, private told: Told, private start: Part | null = null) {
    this.painter = new Painter(canvas)
    canvas.addEventListener('wheel', this.onWheel, { passive: false })
    canvas.addEventListener('pointerdown', this.onDown)
    canvas.addEventListener('pointermove', this.onMove)
    canvas.addEventListener('pointerup', this.onUp)
    canvas.addEventListener('pointerleave', () => this.hover(null, 0, 0))
    canvas.addEventListener('keydown', this.onKey)
  }

  // A new tree or order of boxes starts unzoomed; new colours or figures keep what one looks at where that is still there.
  set(scene: Scene, parent: Uint32Array, depth: Uint16Array): void {
    const fresh = !this.scene || parent !== this.parent || scene.rows.width !== this.scene.rows.width
    const kept = parent === this.parent ? this.selected : null
    this.scene = scene
    this.parent = parent
    this.depth = depth
    this.hovered = null
    this.selected = kept && (scene.rows.find(kept.node) ?? (fresh ? null : kept))
    if (fresh) {
      this.goal = null
      const { width } = scene.rows
      const [from, to, scroll] = this.start ?? [0, 1, 0]
      this.start = null
      this.view = { from: from * width, to: Math.max(to * width, 1e-9), scroll } // what is too far is limited when the height is known
      this.tell(this.view)
    }
    if (!this.selected) this.told.select(0)
    this.draw()
  }

  resize(width: number, height: number): void {
    this.painter.resize(width, height)
    this.view.scroll = this.limit(this.view).scroll
    this.paint() // now: a canvas that was resized is empty
  }

  reset(): void {
    if (this.scene) this.go({ from: 0, to: Math.max(this.scene.rows.width, 1e-9), scroll: 0 })
  }

  zoomBy(factor: number, at = 0.5, now = false): void {
    const view = this.goal?.to ?? this.view
    const middle = view.from + at * (view.to - view.from)
    const goal = { from: middle - (middle - view.from) * factor, to: middle + (view.to - middle) * factor, scroll: view.scroll }
    this.go(goal, now)
  }

  zoomTo(box: Box): void {
    const row = this.rowOf(box)
    const rowsVisible = Math.floor(this.painter.height / ROW)
    const view = this.goal?.to ?? this.view
    const scroll = Math.max(0, Math.min(view.scroll, row * ROW), (row + 4 - rowsVisible) * ROW)
    this.go({ from: box.from, to: box.to, scroll })
  }

  zoomSelected(): void {
    if (this.selected) this.zoomTo(this.selected)
  }

  select(box: Box | null): void {
    this.selected = box
    this.told.select(box?.node ?? 0)
    if (box) this.reveal(box)
    this.draw()
  }

  private reveal(box: Box): void {
    const view = { ...(this.goal?.to ?? this.view) }
    const row = this.rowOf(box)
    view.scroll = Math.min(row * ROW, Math.max(view.scroll, (row + 1) * ROW - this.painter.height))
    const span = view.to - view.from
    if (box.to <= view.from || box.from >= view.to) [view.from, view.to] = [box.from - span / 4, box.from + (3 * span) / 4]
    if (view.scroll !== this.view.scroll || view.from !== this.view.from) this.go(view)
  }

  private limit(view: View): View {
    const whole = Math.max(this.scene?.rows.width ?? 1, 1e-9)
    const span = Math.min(whole, Math.max(view.to - view.from, whole * 1e-9))
    const from = Math.min(Math.max(0, view.from), whole - span)
    const tall = (this.scene?.rows.depth ?? 0) * ROW - this.painter.height
    return { from, to: from + span, scroll: Math.max(0, Math.min(view.scroll, tall)) }
  }

  private go(view: View, now = still()): void {
    const to = this.limit(view)
    this.tell(to)
    if (now) {
      this.goal = null
      this.view = to
    } else this.goal = { from: { ...this.view }, to, began: performance.now() }
    this.draw()
  }

  private tell({ from, to, scroll }: View): void {
    const width = this.scene?.rows.width ?? 0
    const zoomed = to - from < 0.999999 * width
    this.told.zoom(zoomed)
    this.told.view(zoomed || scroll > 0 ? [from / width, to / width, scroll] : null)
  }

  private rowOf(box: Box): number {
    return box.row ?? this.depth[box.node]!
  }

  private draw(): void {
    if (!this.frame) this.frame = requestAnimationFrame(this.step)
  }

  private step = (now: number): void => {
    this.frame = 0
    if (this.goal) {
      const { from, to, began } = this.goal
      const part = Math.min(1, Math.max(0, (now - began) / EASE_MS))
      const eased = 1 - (1 - part) ** 3
      const mix = (a: number, b: number) => a + (b - a) * eased
      this.view = part === 1 ? to : { from: mix(from.from, to.from), to: mix(from.to, to.to), scroll: mix(from.scroll, to.scroll) }
      if (part === 1) this.goal = null
      else this.draw()
    }
    this.paint()
  }

  private paint(): void {
    if (!this.scene) return
    const outlined = []
    if (this.hovered) outlined.push({ box: this.hovered, row: this.rowOf(this.hovered), strong: false })
    if (this.selected) outlined.push({ box: this.selected, row: this.rowOf(this.selected), strong: true })
    this.painter.paint(this.scene, this.view, outlined)
  }

  private boxAt(event: PointerEvent): Box | null {
    if (!this.scene) return null
    const { left, top } = this.canvas.getBoundingClientRect()
    const row = this.painter.rowAt(event.clientY - top, this.scene, this.view)
    const x = this.view.from + ((event.clientX - left) / this.painter.width) * (this.view.to - this.view.from)
    return row < 0 || row >= this.scene.rows.depth ? null : this.scene.rows.at(row, x)
  }

  private hover(box: Box | null, x: number, y: number): void {
    if (box?.node !== this.hovered?.node || box?.from !== this.hovered?.from || box?.row !== this.hovered?.row) {
      this.hovered = box
      this.draw()
    }
    this.told.hover(box?.node ?? 0, x, y)
  }

  private onWheel = (event: WheelEvent): void => {
    if (!this.scene || event.altKey) return
    event.preventDefault()
    const view = this.goal?.to ?? this.view
    const lines = event.deltaMode === 1 ? 30 : 1
    if (event.shiftKey) {
      const by = (event.deltaY || event.deltaX) * lines
      this.go({ ...view, scroll: view.scroll + (this.scene.flip ? -by : by) }, true)
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = ((event.deltaX * lines) / this.painter.width) * (view.to - view.from)
      this.go({ ...view, from: view.from + by, to: view.to + by }, true)
    } else {
      const { left } = this.canvas.getBoundingClientRect()
      this.zoomBy(Math.exp(Math.max(-240, Math.min(240, event.deltaY * lines)) / 400), (event.clientX - left) / this.painter.width, true)
    }
  }

  private onDown = (event: PointerEvent): void => {
    if (event.button !== 0) return
    this.canvas.setPointerCapture(event.pointerId)
    this.drag = { x: event.clientX, y: event.clientY, view: { ...this.view }, moved: false }
  }

  private onMove = (event: PointerEvent): void => {
    const { drag } = this
    if (!drag) return this.hover(this.boxAt(event), event.clientX, event.clientY)
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y]
    if (!drag.moved && Math.hypot(dx, dy) < 4) return
    drag.moved = true
    this.hover(null, 0, 0)
    const by = (-dx / this.painter.width) * (drag.view.to - drag.view.from)
    const scroll = drag.view.scroll + (this.scene?.flip ? dy : -dy)
    this.go({ from: drag.view.from + by, to: drag.view.to + by, scroll }, true)
  }

  private onUp = (event: PointerEvent): void => {
    const { drag } = this
    this.drag = null
    if (!drag || drag.moved) return
    const box = this.boxAt(event)
    this.select(box)
    if (box) this.zoomTo(box)
    else this.reset()
  }

  private onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.scene) return
    const view = this.goal?.to ?? this.view
    const span = view.to - view.from
    const pan = (part: number) => this.go({ ...view, from: view.from + part * span, to: view.to + part * span })
    const down = this.scene.flip ? 'ArrowUp' : 'ArrowDown'
    const up = this.scene.flip ? 'ArrowDown' : 'ArrowUp'
    switch (event.key) {
      case down: this.walk('child'); break
      case up: this.walk('parent'); break
      case 'ArrowRight': event.shiftKey ? pan(0.2) : this.walk('next'); break
      case 'ArrowLeft': event.shiftKey ? pan(-0.2) : this.walk('previous'); break
      case 'PageDown': this.go({ ...view, scroll: view.scroll + this.painter.height - ROW }); break
      case 'PageUp': this.go({ ...view, scroll: view.scroll - this.painter.height + ROW }); break
      case 'Enter': this.zoomSelected(); break
      case '+': case '=': this.zoomBy(0.6); break
      case '-': case '_': this.zoomBy(1 / 0.6); break
      case '0': case 'Escape': case 'Home': this.reset(); break
      default: return
    }
    event.preventDefault()
    event.stopPropagation()
  }

  // From the selected box to one beside it.
  private walk(where: 'child' | 'parent' | 'next' | 'previous'): void {
    const { rows } = this.scene!
    const tiny = rows.width * 1e-12
    const from = this.selected
    if (!from) {
      const start = rows.headings ? 1 : 0
      return this.select(rows.at(start, (this.view.from + this.view.to) / 2) ?? rows.at(start, 0) ?? this.nearest(start, 0, 1))
    }
    const row = this.rowOf(from)
    let to: Box | null = null
    if (where === 'parent') to = this.beyond(row, -1, Math.min(from.from + tiny, (from.from + from.to) / 2))
    else if (where === 'child') to = this.firstBelow(from, row + 1)
    else if (where === 'next') to = rows.at(row, from.to + tiny) ?? this.nearest(row, from.to, 1)
    else to = rows.at(row, from.from - tiny) ?? this.nearest(row, from.from, -1)
    if (to && to.node) this.select(to)
  }

  private firstBelow(from: Box, row: number): Box | null {
    const { rows } = this.scene!
    if (rows.headings) { // in the order of time a box below is not always at the left
      const [left, middle] = [1e-6, 0.5].map((part) => from.from + (from.to - from.from) * part) as [number, number]
      const box = rows.at(row, left) ?? rows.at(row, middle)
      return box && this.parent[box.node] === from.node ? box : this.beyond(row - 1, 1, middle)
    }
    let found: Box | null = null
    this.scene!.rows.boxes(row < this.scene!.rows.depth ? row : 0, from.from, from.to, 4096, (node) => {
      if (!found && this.parent[node] === from.node) found = this.scene!.rows.find(node)
    })
    return found ?? this.scene!.rows.at(row, from.from + (from.to - from.from) * 1e-6)
  }

  // The next box up or down at a place. Of lanes, where nothing else runs at that time: the nearest root of the next thread.
  private beyond(row: number, step: 1 | -1, x: number): Box | null {
    const { rows } = this.scene!
    for (let next = row + step; next >= 0 && next < rows.depth; next += step) {
      const box = rows.at(next, x)
      if (box || !rows.headings) return box
    }
    const roots = rows.headings?.map((heading) => heading.row + 1).filter((root) => (root - 1 - row) * step > 0) ?? []
    for (const root of step > 0 ? roots : roots.reverse()) {
      const box = this.nearest(root, x, 1) ?? this.nearest(root, x, -1)
      if (box) return box
    }
    return null
  }

  private nearest(row: number, x: number, direction: 1 | -1): Box | null {
    const { rows } = this.scene!
    let found: Box | null = null
    const [a, b] = direction === 1 ? [x, rows.width] : [0, x]
    if (b <= a) return null
    rows.boxes(row, a, b, 4096, (_, left, right) => {
      const box = rows.at(row, a + ((left + right) / 2 / 4096) * (b - a))
      if (box && (direction === -1 ? box.to <= x : !found)) found = box
    })
    return found
  }
}
