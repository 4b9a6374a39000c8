//! A layer's matrix products in order of execution: the basis of recomputation by operation.

use super::layout::Model;

/// One product: its input and output widths.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Product {
    from: f64,
    to: f64,
}

impl Model {
    /// Returns query, key, value and output, each separately; then gate and up, or up alone; then down
    /// (torchtitan's blocks).
    fn layer_products(&self) -> Vec<Product> {
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut out: Vec<Product> =
            [(self.hidden, query), (self.hidden, key), (self.hidden, key), (query, self.hidden)]
                .map(|(from, to)| Product { from, to })
                .to_vec();
        let wide = if self.ffn_matrices > 2.5 { 2 } else { 1 };
        out.extend(std::iter::repeat_n(Product { from: self.hidden, to: self.ffn }, wide));
        out.push(Product { from: self.ffn, to: self.hidden });
        out
    }

    /// Returns the share of the products' FLOP in every second one of them, which torchtitan recomputes.
    pub(super) fn recomputed_flop_share(&self) -> f64 {
        let flop = |product: &Product| product.from * product.to;
        let all = self.layer_products();
        all.iter().skip(1).step_by(2).map(flop).sum::<f64>() / all.iter().map(flop).sum::<f64>()
    }

    /// Returns the output elements per token of the other products, excluding the layer's last: no gradient
    /// needs its result.
    pub(super) fn kept_product_elements(&self) -> f64 {
        let all = self.layer_products();
        let last = all.len() - 1;
        all.iter().take(last).step_by(2).map(|product| product.to).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::Model;

    fn model(hidden: f64, kv_heads: f64, ffn: f64, ffn_matrices: f64) -> Model {
        let head_dim = 128.0;
        Model {
            parameters: 0.0,
            layer_parameters: 0.0,
            outer_parameters: 0.0,
            expert_parameters: 0.0,
            active_parameters: 0.0,
            linear_parameters: 0.0,
            layers: 1.0,
            hidden,
            heads: hidden / head_dim,
            kv_heads,
            head_dim,
            ffn,
            ffn_matrices,
            head_vocab: 0.0,
            vocab: 0.0,
            experts: 0.0,
            active_experts: 0.0,
            causal: true,
            dropout: false,
            parallel_blocks: false,
            tied: false,
            rms_norm: true,
            composite_gelu: false,
            activations: None,
        }
    }

    /// Llama 3 8B by hand: 4096 wide, 8 key heads of 128, 14336 inside. Of q 4096, k 1024, v 1024, o 4096,
    /// gate, up and down 14336 (each times 4096) k, o and up are every second one.
    #[test]
    fn every_second_product_of_a_llama_layer() {
        let llama = model(4096.0, 8.0, 14_336.0, 3.0);
        let share = (1024.0 + 4096.0 + 14_336.0) / (4096.0 + 1024.0 + 1024.0 + 4096.0 + 3.0 * 14_336.0);
        assert!((llama.recomputed_flop_share() - share).abs() < 1e-12);
        assert!((llama.kept_product_elements() - (4096.0 + 1024.0 + 14_336.0)).abs() < 1e-9);
    }

    /// GPT: q, k, v and o of one width, up and down of four. k, o and down are 6 of 12; q, v and up are kept.
    #[test]
    fn every_second_product_of_a_gpt_layer() {
        let gpt = model(4096.0, 32.0, 16_384.0, 2.0);
        assert!((gpt.recomputed_flop_share() - 6.0 / 12.0).abs() < 1e-12);
        assert!((gpt.kept_product_elements() - (4096.0 + 4096.0 + 16_384.0)).abs() < 1e-9);
    }
}
