// node viewer.mjs: a browser for tests/unit/test_viewer.py. Each line of stdin is a JSON object {"do": command, ...}; each is answered
// by a line {"result": ...} or {"error": ...}. What a page logs, throws or fetches is kept, for "troubles".
import { chromium } from 'playwright-core'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const browser = await chromium.launch({
  timeout: 120000,
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run', '--disable-component-update', '--disable-sync',
    '--disable-quic', '--use-gl=angle', '--use-angle=swiftshader'],
})
let page
let troubles = []

const commands = {
  async open({ path, scheme = 'light', width = 1280, height = 800, fragment = '', until = 'header, .broken' }) {
    await page?.close()
    page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce' })
    troubles = []
    page.on('pageerror', (error) => troubles.push(`threw ${error}`))
    page.on('console', (message) => troubles.push(`logged ${message.text()}`))
    page.on('dialog', (dialog) => {
      troubles.push(`dialog ${dialog.message()}`)
      dialog.dismiss()
    })
    page.on('request', (request) => {
      if (!/^(file|data|blob):/.test(request.url())) troubles.push(`asked for ${request.url()}`)
    })
    page.setDefaultTimeout(10000)
    await page.goto(pathToFileURL(path).href + fragment, { timeout: 60000 })
    await page.waitForSelector(until, { timeout: 60000 })
    await commands.settle()
  },
  // What an event changed is on the canvas after a frame; what was just opened measures itself, and listens, within three.
  settle: () =>
    page.evaluate(async () => {
      for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(done))
      await new Promise((done) => setTimeout(done))
    }),
  click: ({ selector, at, modifiers = [] }) => page.click(selector, { position: at, modifiers }),
  press: ({ key }) => page.keyboard.press(key),
  fill: async ({ selector, text }) => {
    await page.fill(selector, text)
    await page.dispatchEvent(selector, 'change')
  },
  select: ({ selector, value }) => page.selectOption(selector, value),
  async drag({ selector, from, to }) {
    const box = await page.locator(selector).boundingBox()
    await page.mouse.move(box.x + from[0], box.y + from[1])
    await page.mouse.down()
    await page.mouse.move(box.x + (from[0] + to[0]) / 2, box.y + to[1])
    await page.mouse.move(box.x + to[0], box.y + to[1])
    await page.mouse.up()
  },
  async wheel({ selector, at, by }) {
    const box = await page.locator(selector).boundingBox()
    await page.mouse.move(box.x + at[0], box.y + at[1])
    await page.mouse.wheel(0, by)
  },
  hover: async ({ selector, at }) => page.hover(selector, { position: at }),
  evaluate: ({ script }) => page.evaluate(script),
  text: ({ selector }) => page.locator(selector).innerText(),
  // The cells of each row of a table's body.
  rows: ({ selector }) => page.locator(`${selector} > tbody > tr`).evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))),
  // What assistive technology gets: role and name of each node that is not ignored.
  async tree() {
    const session = await page.context().newCDPSession(page)
    const { nodes } = await session.send('Accessibility.getFullAXTree')
    return nodes.filter((node) => !node.ignored).map((node) => [node.role?.value ?? '', node.name?.value ?? ''])
  },
  shot: ({ path }) => page.screenshot({ path }),
  troubles: () => troubles,
}

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...options } = JSON.parse(line)
  try {
    const result = await commands[name](options)
    if (!['open', 'settle', 'troubles'].includes(name)) await commands.settle()
    console.log(JSON.stringify({ result: result ?? null }))
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }))
  }
}
await browser.close()
