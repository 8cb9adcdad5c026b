"""How the toyworld models are trained: data, tokenizer, autoencoder, CLIP, U-Net."""
