// Paints rows of boxes on a canvas. All boxes go into one array of pixels, one line a row that is then copied down; only the
// text is the canvas's own. So a frame's cost is its pixels and its words, not its boxes.
import type { Box, Rows } from './rows'
import type { Theme } from './colour'

export const ROW = 20 // CSS pixels
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'
const PADDING = 4
const NARROWEST_TEXT = 28

export interface Scene {
  rows: Rows
  fill: Uint32Array // of each node
  name: (node: number) => string
  lit: Uint8Array | null // what a search found, of each node
  flip: boolean // roots at the bottom
  theme: Theme
}

export interface View {
  from: number
  to: number
  scroll: number // CSS pixels from the root's row
}

export class Painter {
  private ctx: CanvasRenderingContext2D
  private image: ImageData | null = null
  private widths = new Float32Array(128)
  private other = 12 // width of a character that is not ASCII; an ellipsis is one
  ratio = 1
  width = 0 // CSS pixels
  height = 0

  constructor(private canvas: HTMLCanvasElement) {
    this.ctx = canvas.getContext('2d', { alpha: false, willReadFrequently: true })!
    this.ctx.font = FONT
    for (let c = 32; c < 127; c++) this.widths[c] = this.ctx.measureText(String.fromCharCode(c)).width
  }

  resize(width: number, height: number): void {
    const ratio = window.devicePixelRatio || 1
    if (width === this.width && height === this.height && ratio === this.ratio) return
    Object.assign(this, { width, height, ratio })
    this.canvas.width = Math.max(1, Math.round(width * ratio))
    this.canvas.height = Math.max(1, Math.round(height * ratio))
    this.canvas.style.height = `${height}px`
    this.image = this.ctx.createImageData(this.canvas.width, this.canvas.height)
  }

  // The top of a row, in CSS pixels.
  top(row: number, scene: Scene, view: View): number {
    return scene.flip ? this.height - (row + 1) * ROW + view.scroll : row * ROW - view.scroll
  }

  rowAt(y: number, scene: Scene, view: View): number {
    return Math.floor((scene.flip ? this.height - y + view.scroll : y + view.scroll) / ROW)
  }

  paint(scene: Scene, view: View, outlined: { box: Box; row: number; strong: boolean }[]): void {
    const { ctx, image, ratio } = this
    if (!image) return
    const pixels = new Uint32Array(image.data.buffer)
    const wide = image.width
    pixels.fill(scene.theme.background)
    const words: [number, number, number, number][] = [] // node, left, right, top; device pixels
    for (let row = 0; row < scene.rows.depth; row++) {
      const css = this.top(row, scene, view)
      if (css + ROW <= 0 || css >= this.height) continue
      const top = Math.max(0, Math.round(css * ratio))
      const bottom = Math.min(image.height, Math.round((css + ROW - 1) * ratio))
      if (bottom <= top) continue
      const line = pixels.subarray(top * wide, (top + 1) * wide)
      scene.rows.boxes(row, view.from, view.to, wide, (node, left, right) => {
        const a = Math.max(0, Math.round(left))
        let b = Math.min(wide, Math.max(Math.round(right), a + 1))
        if (b - a > 3 && b < wide) b -= 1 // a gap between neighbours
        line.fill(scene.fill[node]!, a, b)
        if (b - a > NARROWEST_TEXT * ratio) words.push([node, a, b, Math.round(css * ratio)])
      })
      for (let y = top + 1; y < bottom; y++) pixels.copyWithin(y * wide, top * wide, (top + 1) * wide)
    }
    ctx.putImageData(image, 0, 0)
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0)
    ctx.font = FONT
    ctx.textBaseline = 'middle'
    for (const [node, a, b, top] of words) {
      const text = this.cut(scene.name(node), (b - a) / ratio - 2 * PADDING)
      ctx.fillStyle = scene.lit && !scene.lit[node] ? scene.theme.fadedInk : scene.theme.ink
      ctx.fillText(text, a / ratio + PADDING, top / ratio + ROW / 2)
    }
    ctx.fillStyle = scene.theme.fadedInk
    for (const { row, text } of scene.rows.headings ?? []) {
      const top = this.top(row, scene, view)
      if (top + ROW > 0 && top < this.height) ctx.fillText(this.cut(text, this.width - 2 * PADDING), PADDING, top + ROW / 2)
    }
    for (const { box, row, strong } of outlined) {
      const scale = this.width / (view.to - view.from)
      const a = Math.max(-2, (box.from - view.from) * scale)
      const b = Math.min(this.width + 2, Math.max((box.to - view.from) * scale, a + 2))
      ctx.strokeStyle = scene.theme.mark
      ctx.lineWidth = strong ? 2 : 1
      ctx.strokeRect(a + 0.5, this.top(row, scene, view) + 0.5, b - a - 1.5, ROW - 2)
    }
    ctx.setTransform(1, 0, 0, 1, 0, 0)
  }

  // The beginning of a text that fits, with an ellipsis if it is not all. Measuring each text by the canvas would cost more than drawing.
  private cut(text: string, room: number): string {
    let used = 0
    let fits = 0 // how many characters leave room for an ellipsis
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      used += code < 128 ? this.widths[code]! : this.other
      if (used > room) {
        const last = fits ? text.charCodeAt(fits - 1) : 0
        return fits > 1 ? text.slice(0, last >= 0xd800 && last < 0xdc00 ? fits - 1 : fits) + '…' : ''
      }
      if (used + this.other <= room) fits = i + 1
    }
    return text
  }
}
