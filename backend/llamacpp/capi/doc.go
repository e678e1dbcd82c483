// Package capi declares the part of llama.cpp's C interface that package llamacpp and its kernels use. A cgo package
// cannot include headers from another module's folder, so these repeat the declarations. A test compiles them and the
// real headers of each version, and compares every size, offset, enum value and prototype.
//
//   - capi.h has what is the same in all supported versions.
//   - capi_builtin.h has what only the compiled-in engine has, or declares in its own way.
//   - capi_v05.h has what the versions of shared libraries declare in another way than that.
//
// Files of C++ include them by a relative path. Their packages also import this one, without a use for a name of it:
// Go compiles a package again when one that it imports has changed, but looks for changed headers in its own folder
// only.
package capi

import "embed"

// Headers are the files, which makes each change of them a change of this package.
//
//go:embed *.h
var Headers embed.FS
