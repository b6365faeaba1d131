/* AUC-SDCDperm: Jiang, Tao, Gao, Chu, "Dual Coordinate Descent Method for Solving AUC Optimization Problem", 2014,
 * algorithm 2, on dense rows by class. The random order of an epoch is a fresh affine bijection of the k = n_pos n_neg
 * pairs: pair (offset + t multiplier) mod k at update t, with a multiplier that has no divisor in common with k.
 *
 *   a <- clip(a + lam k (1 - w'z) / ||z||^2, 0, 1),  w <- w + (change of a) z / (lam k),  z = x_i - x_j
 *
 * alpha, k numbers, and w are carried from epoch to epoch. */

void sdcd(const double *pos, const double *neg, const long *multipliers, const long *offsets, long n_pos, long n_neg,
          long d, long epochs, double lam, double *alpha, double *w)
{
    const long k = n_pos * n_neg;
    const double lam_k = lam * k;
    for (long epoch = 0; epoch < epochs; epoch++) {
        long pair = offsets[epoch];
        for (long t = 0; t < k; t++) {
            const double *x = pos + pair / n_neg * d, *other = neg + pair % n_neg * d;
            double margin = 0.0, square = 0.0;
            for (long f = 0; f < d; f++) {
                const double z = x[f] - other[f];
                margin += w[f] * z;
                square += z * z;
            }
            const double old = alpha[pair];
            double next = square > 0.0 ? old + lam_k * (1.0 - margin) / square : 1.0;
            next = next < 0.0 ? 0.0 : next > 1.0 ? 1.0 : next;
            if (next != old) {
                const double step = (next - old) / lam_k;
                alpha[pair] = next;
                for (long f = 0; f < d; f++)
                    w[f] += step * (x[f] - other[f]);
            }
            pair += multipliers[epoch];
            if (pair >= k)
                pair -= k;
        }
    }
}
