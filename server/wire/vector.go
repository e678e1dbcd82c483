package wire

import (
	"math"
	"net/http"
)

// numberCost estimates the memory of a number in an answer in bytes, as a number and as JSON.
const numberCost = 16

// ReserveVectors reserves the memory of an answer with n embeddings of a length. If they are many, making them is work,
// see [Work].
func ReserveVectors(r *http.Request, n, length int) error {
	if err := Reserve(r, numberCost*int64(n)*int64(length)); err != nil {
		return err
	}
	return Work(r)
}

// Shorten keeps the first n values of an embedding and scales them to length 1. This is only meaningful for models that
// were trained for it. The error is about the field param.
func Shorten(param string, vector []float32, n int64) ([]float32, error) {
	if n < 1 || n > int64(len(vector)) {
		return nil, Invalid(param, "it takes a whole number from 1 to %d, the length of this model's embeddings", len(vector))
	}
	vector = vector[:n]
	sum := 0.0
	for _, x := range vector {
		sum += float64(x) * float64(x)
	}
	if length := math.Sqrt(sum); length > 0 {
		for i := range vector {
			vector[i] = float32(float64(vector[i]) / length)
		}
	}
	return vector, nil
}
