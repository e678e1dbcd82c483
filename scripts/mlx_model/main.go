// Command mlx_model converts a gpt-oss GGUF file to a folder that MLX loads:
//
//	go run ./scripts/mlx_model models/demo/demo.gguf .cache/demo-mlx
package main

import (
	"fmt"
	"os"

	"runner/backend/mlx/fromgguf"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: mlx_model model.gguf folder")
		os.Exit(2)
	}
	if err := fromgguf.Convert(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "mlx_model:", err)
		os.Exit(1)
	}
}
