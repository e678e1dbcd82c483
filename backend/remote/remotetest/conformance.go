package remotetest

import "maps"

// notApplicable has the tests of package backendtest that apply to no engine at an address, each with the reason.
// docs/engines.md has the same list.
var notApplicable = map[string]string{
	"CacheFull":  "the cache is the engine's, and it makes room there",
	"Embeddings": "engines give no hidden states",
	"Penalties":  "the repetition penalty is refused; other tests have the other penalties",
}

// NotApplicable returns the tests of package backendtest that apply to no engine at an address, each with the reason,
// and others in addition, which may be nil.
func NotApplicable(others map[string]string) map[string]string {
	all := maps.Clone(notApplicable)
	maps.Copy(all, others)
	return all
}
