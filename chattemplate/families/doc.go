// Package families finds the family of a model. It is the one place that lists all families.
package families
