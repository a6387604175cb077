/* What the core must know of this interpreter to find the spans of OpenTelemetry (core/capture/spans.h). */
#ifndef SPPROF_MODULE_SPANS_H
#define SPPROF_MODULE_SPANS_H

/* GIL held, before a run. If the reads that find spans do not find what is put there for a proof, samples have no spans. Leaves
 * no exception. */
void spp_spans_enter(void);

#endif
