/* SPDAM: Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
 * Mathematics and Statistics 2019, table 1, transcribed, with sigma from the paper's condition (23).
 *
 * Z holds the transformed rows (x - class mean)/sqrt(class share), b = m- - m+; order holds steps * batch row numbers.
 * beta (n numbers), w, ahead and pull (d each) are where to start from and are changed; work holds 2 d numbers. */

void spdam(const double *Z, const double *b, const long *order, long n, long d, long steps, long batch, double lam,
           double sigma, double tau, double theta, double *beta, double *w, double *ahead, double *pull, double *work)
{
    double *delta = work, *moved = work + d;
    double squared = 0.0;
    const double shift = lam + 1.0 / tau;
    for (long f = 0; f < d; f++)
        squared += b[f] * b[f];
    for (long step = 0; step < steps; step++) {
        /* dual: beta_i <- (sigma ahead'z_i + beta_i)/(1 + sigma) on the batch, delta = 1/n sum of changes times z_i */
        for (long f = 0; f < d; f++)
            delta[f] = 0.0;
        for (long q = 0; q < batch; q++) {
            const long i = order[step * batch + q];
            const double *z = Z + i * d;
            double score = 0.0;
            for (long f = 0; f < d; f++)
                score += ahead[f] * z[f];
            const double fresh = (sigma * score + beta[i]) / (1.0 + sigma), change = (fresh - beta[i]) / n;
            beta[i] = fresh;
            for (long f = 0; f < d; f++)
                delta[f] += change * z[f];
        }
        /* primal: (bb' + (lam + 1/tau) I) w_new = w/tau - b - pull - n/m delta, by Sherman-Morrison */
        double along = 0.0;
        for (long f = 0; f < d; f++) {
            moved[f] = w[f] / tau - b[f] - pull[f] - (double)n / batch * delta[f];
            pull[f] += delta[f];
            along += b[f] * moved[f];
        }
        along /= shift + squared;
        for (long f = 0; f < d; f++) {
            const double fresh = (moved[f] - along * b[f]) / shift;
            ahead[f] = fresh + theta * (fresh - w[f]);
            w[f] = fresh;
        }
    }
}
