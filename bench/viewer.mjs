// node viewer.mjs PAGE RUNS: opens the page in headless Chromium as often, each time in a new browser, and prints as JSON of each run when
// the flame graph was there (ms since navigation began) and the times between frames while it is zoomed and while a range is dragged.
import { chromium } from '../tests/browser/node_modules/playwright-core/index.mjs'
import { pathToFileURL } from 'node:url'

const [page_path, runs] = process.argv.slice(2)
const result = []
for (let run = 0; run < Number(runs); run++) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run', '--disable-component-update',
      '--disable-sync', '--disable-quic', '--use-gl=angle', '--use-angle=swiftshader'],
  })
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } })
  await page.goto(pathToFileURL(page_path).href, { timeout: 120000 })
  await page.waitForFunction(() => performance.getEntriesByName('shown').length > 0, null, { timeout: 120000, polling: 50 })
  const opened = await page.evaluate(() => performance.getEntriesByName('shown')[0].startTime)
  const frames = async (work) => {
    await page.waitForTimeout(500)
    await page.evaluate(() => {
      window.frames_ = []
      let last = 0
      const note = (now) => {
        if (last) window.frames_.push(now - last)
        last = now
        if (window.frames_) requestAnimationFrame(note)
      }
      requestAnimationFrame(note)
    })
    await work()
    return page.evaluate(() => {
      const frames = window.frames_
      window.frames_ = null
      return frames
    })
  }
  const box = await page.locator('#flame').boundingBox()
  const zoom = await frames(async () => {
    for (const part of [0.2, 0.5, 0.8]) {
      await page.mouse.move(box.x + part * box.width, box.y + 50)
      for (let i = 0; i < 40; i++) await page.mouse.wheel(0, -60)
      for (let i = 0; i < 40; i++) await page.mouse.wheel(0, 60)
      await page.mouse.click(box.x + part * box.width, box.y + 90)
      await page.waitForTimeout(250)
      await page.keyboard.press('Escape')
      await page.waitForTimeout(250)
    }
  })
  const lanes = await page.locator('.lane-box canvas').boundingBox()
  const drag = await frames(async () => {
    await page.mouse.move(lanes.x + 0.3 * lanes.width, lanes.y + 30)
    await page.mouse.down()
    for (let i = 0; i < 30; i++) await page.mouse.move(lanes.x + (0.3 + i / 100) * lanes.width, lanes.y + 30)
    await page.mouse.up()
  })
  result.push({ opened, zoom, drag })
  await browser.close()
}
console.log(JSON.stringify(result))
