package contract

import (
	"errors"
	"net/http"

	"runner/reasoning/seal"
	"runner/server/wire"
)

// SealedError is what a request is answered with when the sealed value at param was not opened because of err, which may be nil.
func SealedError(param string, err error) error {
	var refused *seal.Error
	if !errors.As(err, &refused) {
		return err
	}
	return &wire.Error{Status: http.StatusBadRequest, Code: refused.Code(), Param: param, Message: refused.Error() + "; " + refused.Hint(), Err: err}
}
