package llamacpp

import (
	"os"
	"path/filepath"
)

// engines is where scripts/engines.sh installs engines and headers for tests.
var engines = filepath.Join("..", "..", ".cache", "engines")

// folderHeaders are the headers of the versions that a folder may have, as far as they are installed.
func folderHeaders() []version {
	var list []version
	for _, name := range []string{"0.5", "0.6"} {
		tree := filepath.Join(engines, "headers-"+name)
		if _, err := os.Stat(tree); err != nil {
			continue
		}
		list = append(list, version{
			name:    name,
			include: []string{"-I", filepath.Join(tree, "include"), "-I", filepath.Join(tree, "ggml", "include")},
			real: publicHeaders + "#define llama_model_params_v05 llama_model_params\n" +
				"#define llama_context_params_v05 llama_context_params\n",
			ours: "capi_v05.h",
		})
	}
	return list
}
