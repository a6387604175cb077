import { defineConfig } from 'vite'
import { viteSingleFile } from 'vite-plugin-singlefile'

// One file with everything in it: spprof/formats/html.py puts a profile in the place of %SPPROF_DATA%.
export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: { target: 'es2022', outDir: '../build/viewer', emptyOutDir: true, modulePreload: false, reportCompressedSize: false },
})
