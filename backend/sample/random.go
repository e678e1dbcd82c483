package sample

// uniform returns a number in [0, 1) that depends on the seed, the position and the number of the draw at that
// position (0 or 1). It is the output function of SplitMix64 (Steele, Lea and Flood 2014), applied to the seed and
// then to the seed's hash advanced by the draw's number.
func uniform(seed uint64, position, draw int) float64 {
	const gamma = 0x9e3779b97f4a7c15
	n := uint64(position)*2 + uint64(draw) + 1
	return float64(mix(mix(seed+gamma)+n*gamma)>>11) / (1 << 53)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
