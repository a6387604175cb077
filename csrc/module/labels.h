/* Labels in Python: the type of their sets, and what src/spprof/recording/labels.py proves and switches on. GIL held,
 * all of it. */
#ifndef SPPROF_MODULE_LABELS_H
#define SPPROF_MODULE_LABELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef spp_label_methods[];

#endif
