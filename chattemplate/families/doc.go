// Package families tells which family a model is of, and opens it. It is the one place that lists the families.
package families
