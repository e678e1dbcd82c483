package dialect

import (
	"slices"

	"runner/backend"
	"runner/backend/remote"
)

// NoToken is an id that no model uses.
const NoToken backend.Token = 1<<31 - 1

// Sampling returns the settings of a request that the engine has. All are there, because a server may have its own
// defaults.
func (e *Engine) Sampling(r *remote.Request) map[string]any {
	all := map[string]any{}
	for _, x := range r.Sampling.Settings() {
		switch {
		case !slices.Contains(e.Settings, x.Name):
		case x.Int != nil:
			all[x.Name] = *x.Int
		default:
			all[x.Name] = *x.Float
		}
	}
	return all
}

// Few reports whether a request names some allowed tokens that are at most half of the vocabulary. Otherwise the others
// are named.
func (e *Engine) Few(r *remote.Request) bool {
	return len(r.Allowed) > 0 && (e.Vocab == nil || len(r.Allowed) <= e.Vocab.Len()/2)
}

// Bias returns what is added to the logits of tokens. Forbidden tokens get forbid. Tokens that are not among the
// allowed ones are forbidden, or lift is added to the allowed ones if these are few; lift should be more than logits
// differ, and small enough that their differences keep five digits.
func (e *Engine) Bias(r *remote.Request, forbid, lift float32) map[backend.Token]float32 {
	all, forbidden := map[backend.Token]float32{}, map[backend.Token]bool{}
	for _, x := range r.Sampling.Bias {
		all[x.Token] += x.Bias
		forbidden[x.Token] = forbidden[x.Token] || x.Forbids()
	}
	if e.Few(r) {
		for _, t := range r.Allowed {
			if lift > 0 {
				all[t] += lift
			}
		}
	} else if rest := r.Allowed; len(rest) > 0 {
		for t := range backend.Token(e.Vocab.Len()) {
			if len(rest) > 0 && rest[0] == t {
				rest = rest[1:]
				continue
			}
			forbidden[t] = true
		}
	}
	for t, is := range forbidden {
		if is {
			all[t] = forbid
		}
	}
	return all
}

// Salt returns what keeps the prefix of a request apart, for an engine that has salts, or "". A prefix that nobody may
// share gets a salt of its own.
func Salt(r *remote.Request) string {
	if r.NoCache {
		return r.ID
	}
	return r.Salt
}
