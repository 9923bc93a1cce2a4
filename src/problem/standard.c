#include "standard.h"

const char *const axis_names[] = {"none", "rows", "cols"};
const char *const missing_names[] = {"error", "mean", "zero"};
