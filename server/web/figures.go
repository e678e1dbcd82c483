package web

import (
	"net/http"

	"runner/server/wire"
)

// figures answers GET /web/figures.
func (a *API) figures(w http.ResponseWriter, _ *http.Request) error {
	if a.cfg.Figures == nil {
		return wire.Errorf(wire.CodeNotFound, "this server has no figures for operators")
	}
	w.Header().Set("Cache-Control", "no-store")
	return wire.Answer(w, a.cfg.Figures())
}
