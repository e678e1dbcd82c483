// Command mlx_model converts a gpt-oss GGUF file to a folder that MLX loads:
//
//	go run ./scripts/mlx_model models/demo/demo.gguf .cache/demo-mlx
//
// With -plain, it writes the layout of Hugging Face's transformers in 32 bits, which vLLM loads.
package main

import (
	"fmt"
	"os"

	"runner/backend/mlx/fromgguf"
)

func main() {
	convert, args := fromgguf.Convert, os.Args[1:]
	if len(args) > 0 && args[0] == "-plain" {
		convert, args = fromgguf.ConvertPlain, args[1:]
	}
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mlx_model [-plain] model.gguf folder")
		os.Exit(2)
	}
	if err := convert(args[0], args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "mlx_model:", err)
		os.Exit(1)
	}
}
