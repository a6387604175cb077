// node diff.mjs PAGE: opens a page of `spprof diff -o` offline and prints as JSON what a person sees, before and after using it.
import { chromium } from 'playwright-core'
import { pathToFileURL } from 'node:url'

const browser = await chromium.launch({
  timeout: 120000,
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run', '--disable-component-update', '--disable-sync'],
})
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } })
const errors = [], requests = []
page.on('pageerror', (error) => errors.push(String(error)))
page.on('console', (message) => ['error', 'warning'].includes(message.type()) && errors.push(message.text()))
page.on('dialog', (dialog) => { errors.push(`dialog: ${dialog.message()}`); dialog.dismiss() })
page.on('request', (request) => requests.push(request.url()))
await page.goto(pathToFileURL(process.argv[2]).href, { timeout: 60000 })

const rows = () => page.locator('#rows tr').evaluateAll((all) =>
  all.map((row) => [...row.cells].map((cell) => cell.textContent).filter((text, i) => i !== 3)))
const calls = () => page.locator('#graph .call').evaluateAll((all) => all.map((call) => ({
  title: call.querySelector('title').textContent,
  x: Number(call.querySelector('rect').getAttribute('x')),
  y: Number(call.querySelector('rect').getAttribute('y')),
  width: Number(call.querySelector('rect').getAttribute('width')),
  fill: call.querySelector('rect').getAttribute('fill'),
})))
const result = { errors, requests }
result.title = await page.title()
result.heading = await page.locator('#title').textContent()
result.head = await page.locator('#head').textContent()
result.rows = await rows()
result.wide = await page.locator('#graph').evaluate((graph) => graph.clientWidth)
result.calls = await calls()
result.scripts = await page.locator('script').count()
result.images = await page.locator('img, iframe, object, embed, link').count()
await page.getByLabel('Width').selectOption('A')
result.by_a = await calls()
await page.getByLabel('Figures of a function').selectOption('with what it calls')
result.totals = await rows()
await page.getByLabel('only what is more than chance').check()
result.marked = await rows()
await page.getByLabel('only what is more than chance').uncheck()
await page.getByRole('button', { name: 'share of B' }).click()
result.sorted = await rows()
await page.getByLabel('Search').fill('parse')
result.found = await page.locator('#graph .found title').allTextContents()
result.searched = await rows()
await page.getByLabel('Search').fill('')
await page.locator('#graph .call', { hasText: 'parse' }).first().click()
result.zoomed = await calls()
await page.keyboard.press('Escape')
result.reset = await calls()
// By keyboard alone: from the search field on.
await page.getByLabel('Search').focus()
await page.keyboard.press('Tab')
result.walked = []
for (const key of ['ArrowDown', 'ArrowUp', 'ArrowUp', 'ArrowDown', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Enter']) {
  await page.keyboard.press(key)
  const [shown, selected] = await page.locator('#graph').evaluate((graph) => {
    const box = document.getElementById(graph.getAttribute('aria-activedescendant'))
    return [document.getElementById('told').textContent, box ? `${box.getAttribute('role')} ${box.getAttribute('aria-selected')} ${box.getAttribute('aria-label')}` : '']
  })
  result.walked.push([key, shown.split('\n')[0].split(' ')[0], selected.split('\n')[0].split(' (')[0]])
}
result.entered = await calls()
await page.keyboard.press('Escape')
result.left = await calls()
if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT, fullPage: true })
console.log(JSON.stringify(result))
await browser.close()
