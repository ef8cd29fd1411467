// Looks at a finished site in Chromium: axe-core on each page, in light and dark, and screenshots.
//
//   node axe.mjs SITE SCREENSHOTS
//
// "make site-look" runs it. It fails if axe-core finds something, if a page is wider than a phone, or if the search finds nothing.
import { createServer } from 'node:http'
import { readFileSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { extname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [site, shots] = process.argv.slice(2)
const require = createRequire(pathToFileURL(join(process.cwd(), 'x.js')))
const puppeteer = require('puppeteer-core')
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')

const types = { '.html': 'text/html; charset=utf-8', '.css': 'text/css', '.js': 'text/javascript', '.json': 'application/json', '.svg': 'image/svg+xml' }
const server = createServer((request, answer) => {
  const path = decodeURI(new URL(request.url, 'http://site').pathname)
  const file = join(site, path.endsWith('/') ? path + 'index.html' : path)
  try {
    const body = readFileSync(file)
    answer.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' }).end(body)
  } catch {
    answer.writeHead(404).end()
  }
})
await new Promise(done => server.listen(0, '127.0.0.1', done))
const origin = `http://127.0.0.1:${server.address().port}`

const pages = readdirSync(site, { recursive: true }).filter(p => p.endsWith('index.html')).map(p => '/' + p.replace(/index\.html$/, '')).sort()
const pictured = ['/', '/start/install/', '/start/control-plane/', '/start/first-rule/', '/concepts/', '/operations/', '/lint/', '/functions/', '/configuration/', '/benchmarks/', '/charts/', '/commands/keelson-serve/']
const looks = [['light', 1280, 900], ['dark', 1280, 900], ['light', 390, 844]]
const mistakes = []
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
for (const [scheme, width, height] of looks) {
  const page = await browser.newPage()
  page.on('pageerror', error => mistakes.push(`${page.url()}: ${error.message}`))
  await page.setViewport({ width, height })
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
  for (const path of pages) {
    await page.goto(origin + path, { waitUntil: 'load' })
    const name = `${path.replaceAll('/', '_')}${scheme}-${width}`
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    if (wide > 0) mistakes.push(`${name}: ${wide} pixels wider than the window`)
    await page.evaluate(axe)
    const found = await page.evaluate(() => axe.run())
    for (const v of found.violations) mistakes.push(`${name}: ${v.id}: ${v.help}: ${v.nodes[0].html.slice(0, 120)} (${v.nodes.length} places)`)
    if (pictured.includes(path)) await page.screenshot({ path: join(shots, name + '.png') })
  }
  await page.goto(origin + '/', { waitUntil: 'load' })
  await page.type('form.search input', 'pruning')
  await page.waitForSelector('form.search li', { timeout: 5000 }).catch(() => mistakes.push(`the search finds nothing in ${scheme}-${width}`))
  await page.screenshot({ path: join(shots, `search-${scheme}-${width}.png`) })
  await page.close()
}
await browser.close()
server.close()
console.log(`${pages.length} pages, ${looks.length} looks, ${mistakes.length} mistakes`)
for (const m of mistakes) console.log('  ' + m)
process.exit(mistakes.length === 0 ? 0 : 1)
