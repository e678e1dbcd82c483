package installed

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"runner/models/cache"
	"runner/models/catalog"
)

// lmStudio finds models in LM Studio's folders, which hold ORG/REPO/FILE (lmstudio.ai/docs/basics/import-model).
func lmStudio() []catalog.Entry {
	var models []catalog.Entry
	for _, root := range lmStudioDirs() {
		for _, org := range folders(root) {
			for _, repo := range folders(filepath.Join(root, org)) {
				id := org + "/" + repo
				// LM Studio has the hub's names. What has another name cannot be named as ORG/REPO.
				if cache.ValidID(id) {
					dir := filepath.Join(root, org, repo)
					models = append(models, inFolder(dir, id, filesBelow(dir), catalog.LMStudio)...)
				}
			}
		}
	}
	return models
}

// lmStudioDirs returns the folders in which LM Studio keeps models, the present one and that of earlier versions.
func lmStudioDirs() []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(home, ".lmstudio", "models"), filepath.Join(home, ".cache", "lm-studio", "models")}
}

// folders lists the folders in a folder, also those behind links, which people make to share models.
func folders(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err == nil && info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// Limits of one repository.
const (
	maxDepth = 3
	maxFiles = 10_000
)

// filesBelow lists the regular files in a folder and the folders in it. It follows links to files only.
func filesBelow(dir string) []catalog.File {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	var files []catalog.File
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, p)
		unreadable := err != nil || relErr != nil
		switch {
		case unreadable: // it is left out
			return nil
		case d.IsDir() && strings.Count(filepath.ToSlash(rel), "/") >= maxDepth:
			return fs.SkipDir
		case d.IsDir():
			return nil
		case len(files) == maxFiles:
			return fs.SkipAll
		}
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			files = append(files, catalog.File{Path: filepath.ToSlash(rel), Size: info.Size()})
		}
		return nil
	})
	return files
}
